"""Verdicts on derivatives: comparisons of autodiff with its estimates, and the terms that decide a mismatch.

Each number in these modules, its unit, what it protects against, and below it a test that fails without it, by its path
in tests/. `eps` is the unit roundoff of the arithmetic. What a number of gradcheck.numerics means as well has its row
there: `EXCLUSION`, `RELATIVE`, `PROMISE`, `FACTOR`, `FINEST`, `MANY` and `PAIR`.

doubts.CLEAR                       64.0      perturbations        drawing on where rounding explains nothing
    unit/verdict/test_terms.py::test_a_finer_row_is_no_rounding_if_few_draws_or_all_of_them_move_it_far_less
doubts.ENOUGH                      5         draws                rounding that the first draws happen not to show
    unit/verdict/test_terms.py::test_a_finer_row_is_no_rounding_if_few_draws_or_all_of_them_move_it_far_less
doubts.FEW                         10        points               perturbing all points again in each of the draws
    unit/verdict/test_terms.py::test_a_finer_row_is_no_rounding_if_few_draws_or_all_of_them_move_it_far_less
doubts.MET                         2.0**-10  share of the gap     finer slopes that agree with autodiff by chance
    decisions/test_terms.py::test_the_verdict_is_another_one_without_the_term
doubts.FLAT                        4         steps                taking a few equal values for a stair
    decisions/test_terms.py::test_the_verdict_is_another_one_without_the_term
doubts.CLOSER                      2.0**-14  share of a step      many small jumps that pass for noise
    decisions/test_terms.py::test_the_verdict_is_another_one_without_the_term
doubts.DIRECTIONS_BEFORE_MISMATCH  16        directions           missing a kink that shows in few oblique directions
    decisions/test_smoothness_verdicts.py::test_a_kink_in_a_single_orthant_is_no_mismatch
doubts.TREND                       1e-3      share of the size    taking the trend of a derivative for an oscillation
    unit/verdict/test_swing.py::test_a_value_that_is_wrong_around_the_point_does_not_swing
doubts.SHIFTS                      12        distances            missing an oscillation that most distances do not show
    unit/verdict/test_swing.py::test_a_term_that_the_bound_hides_is_seen
doubts.APART                       0.05      share of the gap     taking the rounding of a derivative for an oscillation
    unit/verdict/test_swing.py::test_a_term_that_the_bound_hides_is_seen
doubts.SWINGS                      5         parabolas            taking a change on both sides for an oscillation
    unit/verdict/test_swing.py::test_a_term_that_the_bound_hides_is_seen
doubts.STILL                       4         parabolas            asking all neighbours of a derivative that is still
    unit/verdict/test_swing.py::test_the_larger_the_gap_the_fewer_neighbours_are_asked
doubts.PERIODS                     100.0     radians              neighbours at which a hidden term has hardly turned
    unit/verdict/test_swing.py::test_the_larger_the_gap_the_fewer_neighbours_are_asked
doubts.LEAST_SHIFT                 1e-4      share of the radius  neighbours at which a kernel leaves out the same term
    unit/verdict/test_swing.py::test_the_larger_the_gap_the_fewer_neighbours_are_asked
doubts.CHANGE                      10.0      sizes                taking a smooth change for an oscillation
    unit/verdict/test_swing.py::test_the_larger_the_gap_the_fewer_neighbours_are_asked
doubts.SMALL_CHANGE                1e-2      share of the gap     neighbours that show both a change and a swing
    unit/verdict/test_swing.py::test_the_larger_the_gap_the_fewer_neighbours_are_asked
doubts.CHANCE                      1e-6      probability          oscillations that are back at all neighbours by chance
    unit/verdict/test_swing.py::test_the_larger_the_gap_the_fewer_neighbours_are_asked
lines.LITTLE                       64.0      eps                  taking the rounding of a value for its change
    planted/test_isolated_points.py::test_a_function_is_wrong_at_a_point
looks.ROUNDS                       3         samples              features that a single closer sample does not reach
    decisions/test_closer.py::test_an_edge_inside_the_first_closer_stencil_ends_the_next_one
measured_rounding.DRAWS            8         draws                roundings that a few perturbations do not show
    unit/verdict/test_terms.py::test_two_draws_are_enough_for_what_agrees_without_rounding
measured_rounding.FIRST_DRAWS      2         draws                drawing on where two draws decide
    unit/verdict/test_terms.py::test_two_draws_are_enough_for_what_agrees_without_rounding
measured_rounding.SPREAD           2.0       ratio of changes     roundings larger than any of the draws
    unit/verdict/test_terms.py::test_two_draws_are_enough_for_what_agrees_without_rounding
measured_rounding.POINTS           4         points               derivatives that an ulp happens not to move
    unit/verdict/test_terms.py::test_what_is_far_off_needs_few_perturbed_values
measured_rounding.NEXT             64.0      eps                  neighbours that share what is wrong at the point alone
    unit/verdict/test_terms.py::test_what_is_wrong_within_a_few_roundings_of_the_point_alone_is_no_rounding
measured_rounding.NEAR             2.0**-8   share of the point   neighbours that round to the point in low precision
    decisions/test_low_precision.py::test_an_error_of_the_low_precision_formula_is_no_rounding
measured_rounding.NEIGHBOURS       6         points               lost digits that few neighbours do not show
    unit/verdict/test_terms.py::test_digits_that_one_of_six_neighbours_shows_are_lost
measured_rounding.HELD             2.0**-6   share of a value     taking another branch at a tie for the same one
    decisions/test_graphs.py::test_what_single_precision_loses_at_a_tie_is_no_mismatch_and_a_wrong_slope_is
probe_pairs.SMALL                  24        coordinates          paying for axes of large functions
    decisions/test_quick_look.py::test_only_lines_in_doubt_are_looked_at_closely
probe_pairs.FAINT                  1e-6      share of an entry    entries that others hide in a combination
    decisions/test_earned.py::test_a_source_that_moves_nothing_but_rounding_is_seen_by_a_quick_look
probes.GLANCES                     4         probes               entries that stay hidden; endless further probes
    decisions/test_quick_look.py::test_coordinates_that_stay_faint_are_looked_at_one_by_one_after_five_probes
probes.JACOBIAN                    2**20     entries              tolerances of single entries, lost in sums
    decisions/test_probes.py::test_tolerance_over_probes
probes.ROWS                        64        outputs              looking at thousands of rough outputs one by one
    decisions/test_probes.py::test_too_many_kinked_outputs_are_left_and_said_so
probes.SPLITS                      256       splits               splitting coordinates without end
    decisions/test_closer.py::test_one_coordinate_near_a_kink_among_many
probes.SPLIT_VALUES                2**26     numbers              splits whose points do not fit into memory
    decisions/test_closer.py::test_one_coordinate_near_a_kink_among_many
probes.ROUNDING                    0.01      share of a maximum   measured rounding that excuses a wrong probe
    decisions/test_probes.py::test_no_measured_rounding_excuses_a_probe_that_is_off_by_the_largest_term
resolution.EARNED                  0.1       share of a slope     agreement that would have missed errors as large
    decisions/test_earned.py::test_what_is_seen_too_coarsely_is_told_with_the_number_and_what_helps
second_order.MOST                  0.5       share of a column    finer steps for a few unlucky entries
    decisions/test_second_order.py::test_a_column_is_sampled_again_between_its_steps_or_beyond_them_if_most_is_in_doubt
second_order.BESIDE                0.6       share of a step      sampling unlucky entries again at the same steps
    decisions/test_second_order.py::test_a_column_is_sampled_again_between_its_steps_or_beyond_them_if_most_is_in_doubt
second_order.SHARE                 1e-10     share of a maximum   sampling again for digits lost far below a maximum
    decisions/test_second_order.py::test_digits_that_are_lost_far_below_the_largest_entry_of_a_column_cost_no_other_row
second_order.SHARE_OF_PRODUCTS     1e-9      share of a maximum   gradients of large functions for an unlucky rounding
    decisions/test_second_order.py::test_what_products_of_thousands_lose_costs_no_other_row
summary.TERMS                      4         elements             directions that fill a page
    unit/verdict/test_summary.py::test_a_direction_is_named_by_its_elements
summary.SHOWN                      0.05      share of an error    naming terms that matter little
    unit/verdict/test_summary.py::test_a_finding_names_the_larger_terms_of_what_is_allowed
suspicion.DROWNED                  0.01      share of a gradient  derivatives of gradients that are mostly rounding
    decisions/test_graphs.py::test_the_derivative_of_a_gradient_that_is_rounding_is_no_mismatch
suspicion.ULPS                     2.0       eps                  taking the residue of cancelled terms for a derivative
    decisions/test_terms.py::test_the_verdict_is_another_one_without_the_term
suspicion.FINER                    2.0**-20  share of a step      features that the usual steps step over
    decisions/test_terms.py::test_the_verdict_is_another_one_without_the_term
suspicion.NEARER                   2.0**-10  share of a step      missing stairs as wide as steps between two looks
    unit/verdict/test_terms.py::test_steps_inside_a_stair_excuse_the_slope_of_many_stairs
suspicion.WIDE                     4096      coordinates          estimating thousands of entries of every column
    decisions/test_second_order.py::test_a_column_is_done_with_after_few_gradients
suspicion.SUSPECTS                 8         coordinates          wrong products behind which no entry is found
    decisions/test_second_order.py::test_the_eight_entries_that_look_worst_among_thousands_are_examined
tables.GRANTED                     4.0       allowed errors       stating less than what a closer look allows
    decisions/test_low_precision.py::test_differences_are_taken_in_float64
tables.LEFT                        2.0**-20  share of the lost    taking what float64 loses for an error of a formula
    decisions/test_earned.py::test_an_operation_that_is_wrong_by_a_tenth_in_bfloat16_is_wrong_by_as_much_in_float64
tables.GROSS                       1e6       allowed errors       few wide steps or draws where chance could decide
    decisions/test_quick_look.py::test_a_gross_error_needs_no_fine_steps
"""
