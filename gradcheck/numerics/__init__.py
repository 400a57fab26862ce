"""Estimates of derivatives from sampled values, with error bounds: NumPy only.

Each number in these modules, its unit, what it protects against, and below it a test that fails without it, by its path
in tests/. `eps` is 2**-53, `tiny` the smallest normal number of float64. Stencils have docstrings of their own.

difference.RELATIVE      0.1                share of a value      verdicts from bounds that leave no digit
    unit/numerics/test_difference.py::test_what_is_conclusive_among_noise_is_right_to_a_tenth
difference.ABSOLUTE      1e-6               share of |f| / step   endless doubt about derivatives that are next to zero
    unit/numerics/test_difference.py::test_a_slope_of_zero_is_decided_though_digits_are_lost
difference.EXCLUSION     10.0               bounds                taking what a bound just misses for another value
    unit/numerics/test_probing.py::test_one_wrong_entry_is_always_caught_and_located
difference.TIGHT         2.0**13            roundings             sampling again where rounding alone limits a bound
    unit/numerics/test_calibration.py::test_tight_estimates_are_as_good_as_those_of_a_close_look
difference.INSIDE        4.0                spans                 taking a kink beside the noise samples for noise
    unit/numerics/test_difference.py::test_relu_near_its_kink
one_sided.CHANGES        4.0                changes               truncation beyond the last changes of a limit
    unit/numerics/test_one_sided.py::test_kind_by_name
one_sided.COLUMNS        6                  columns               limits that few powers of the step leave inaccurate
    unit/numerics/test_one_sided.py::test_kind_by_name
one_sided.DISTINCT       4.0                bounds                kinks, jumps and cusps among lost digits
    unit/numerics/test_one_sided.py::test_lost_digits_are_never_called_a_kink_or_a_jump
one_sided.SMALLEST_KINK  1e-3               share of a slope      calling a point smooth whose kink noise may hide
    unit/numerics/test_one_sided.py::test_no_noise_makes_a_kink_smooth
one_sided.STEADY         0.9                ratio of changes      taking slopes that settle slowly for endless ones
    unit/numerics/test_one_sided.py::test_kind_by_name
one_sided.LAST           4                  steps                 taking a slope that changes by chance for endless
    unit/numerics/test_one_sided.py::test_kind_by_name
one_sided.ROOT           0.8                power of the step     taking slopes that settle with the steps for a cusp
    unit/numerics/test_one_sided.py::test_kind_by_name
one_sided.EVEN           0.1                share of a rate       missing a cusp beside other terms
    unit/numerics/test_one_sided.py::test_slopes_where_the_power_of_a_fraction_has_another_one_beside_it
one_sided.AMPLIFIED      10.0               roundings             bounds at cusps below the rounding of their slopes
    unit/numerics/test_one_sided.py::test_slopes_of_a_smooth_function_at_the_power_of_a_fraction
one_sided.ISOLATED       2000.0             ratio of steps        taking the edge of a staircase for a gap at the point
    unit/numerics/test_one_sided.py::test_lost_digits_are_never_called_a_kink_or_a_jump
one_sided.FINEST         3                  steps                 taking a rounded corner for a kink
    unit/numerics/test_one_sided.py::test_breaks_on_smooth_functions_are_all_recognised
one_sided.LASTING        0.25               share of a jump       taking a steep but smooth transition for a jump
    unit/numerics/test_one_sided.py::test_no_smooth_point_is_called_anything_else
one_sided.NOTHING        1e9*tiny           size of f             calling a function unknown that is zero
    unit/numerics/test_one_sided.py::test_kind_by_name
one_sided.WIDENING       4.0                ratio of spans        passing over the last span within the domain
    unit/numerics/test_staircase.py::test_the_row_is_widened_until_it_shows_stairs_and_so_many_times_at_most
one_sided.WIDEST         24                 widenings             widening a flat piece without end
    unit/numerics/test_staircase.py::test_the_row_is_widened_until_it_shows_stairs_and_so_many_times_at_most
one_sided.ASIDE          2.0**-10           flat pieces           taking a soft threshold for stairs
    unit/numerics/test_staircase.py::test_staircases_have_the_slope_of_what_was_meant
probing.FEW_INPUTS       6                  inputs                probing at random what axes show at the same cost
    decisions/test_quick_look.py::test_agreement_takes_the_light_stencil_only
probing.FEW_OUTPUTS      4                  outputs               probing at random what single outputs show
    decisions/test_probes.py::test_a_first_look_at_a_large_function_takes_its_outputs_together
probing.PAIR             8                  probes                paying for more random pairs than chance requires
    decisions/test_quick_look.py::test_so_do_probes
probing.ATTEMPTS         4                  bisections            errors that cancel in a half, wherever it is
    unit/numerics/test_probing.py::test_errors_that_pass_in_one_half_and_in_the_other_are_located_all_the_same
probing.PRODUCTS         16*eps             share of products     the rounding of long sums
    unit/numerics/test_probing.py::test_sums_of_a_million_products_are_right_within_their_bound
reach.INTO               0.7                share of a step       a closer stencil that meets what ends the reach
    decisions/test_closer.py::test_what_ends_the_reach
reach.POOR               2.0**20            roundings             leaving a poor bound to an edge nearby
    unit/numerics/test_reach.py::test_a_bound_that_an_edge_widens_gains_from_a_closer_look_though_it_is_conclusive
reach.WORTH              30.0               roundings             sampling lost digits again and again
    unit/numerics/test_reach.py::test_a_bound_that_lost_digits_leave_does_not
reach.GAIN               0.1                share of a step       sampling again with nearly the same steps
    unit/numerics/test_reach.py::test_nor_does_a_second_derivative_whose_reach_ends_at_the_widest_steps
reach.NOTABLE            0.1                share of the largest  counting the turns of ripples beside a feature
    decisions/test_closer.py::test_what_is_erratic_and_what_stands_alone
reach.TURNS              4                  changes of sign       taking a pole or a jump for lost digits
    decisions/test_closer.py::test_what_is_erratic_and_what_stands_alone
reach.FAR                512.0              closer stencils       taking the slope of a single stair for that of many
    decisions/test_closer.py::test_a_row_inside_a_single_stair_says_no_more_than_the_stairs_around_it
reach.REPEATED           6                  steps                 taking a few equal rises for a hidden transition
    unit/numerics/test_reach.py::test_a_small_transition_shows_in_rises_that_are_alike
reach.ALIKE              0.05               share of a rise       missing a transition beside other terms
    unit/numerics/test_reach.py::test_a_small_transition_shows_in_rises_that_are_alike
reach.STAIRS             16.0               stairs                taking stairs of low precision for a transition
    unit/numerics/test_reach.py::test_one_stair_beside_the_point_is_no_transition
rounding.AGREEMENT       4.0                ratio of deviations   taking the function itself for noise
    unit/numerics/test_rounding.py::test_noise_is_estimated_within_a_factor_of_three
rounding.FACTOR          4.0                standard deviations   bounds that noise often exceeds
    unit/numerics/test_rounding.py::test_noise_is_estimated_within_a_factor_of_three
rounding.CONFIRMED       100.0              ratio of noise        taking a kink within wide spacings for noise
    unit/numerics/test_rounding.py::test_a_kink_is_noise_to_the_table_but_is_not_confirmed
rounding.SIGN_CHANGES    3                  changes of sign       taking the two turns at a kink for noise
    unit/numerics/test_rounding.py::test_a_staircase_is_noise_though_the_finest_differences_see_one_stair
rounding.NOISE           1e-6               share of a change     missing stairs that the finest steps do not show
    unit/numerics/test_rounding.py::test_noise_goes_up_and_down_past_equal_stairs_too
rounding.PART            0.125              share of the noise    missing the turns of stairs some of which are equal
    unit/numerics/test_rounding.py::test_a_staircase_is_noise_though_the_finest_differences_see_one_stair
rounding.LOST            1e-3               share of a change     missing digits that are lost in larger stairs
    unit/numerics/test_rounding.py::test_noise_scatters_over_all_samples_but_a_kink_and_a_jump_do_not
rounding.PROMISE         4.0                eps                   taking the rounding of a good kernel for an error
    unit/numerics/test_difference.py::test_step_over_a_pole
rounding.TAIL            3                  steps                 taking the curvature of wider steps for noise
    unit/numerics/test_difference.py::test_step_over_a_pole
rounding.TAIL_FACTOR     1.5                ratio of noise        noise larger than the few differences that show it
    unit/numerics/test_difference.py::test_lost_digits_widen_the_bound
rounding.RESOLVED        16.0               roundings             steps between points that are rounded to one another
    unit/numerics/test_reach.py::test_no_closer_stencil_has_steps_that_the_point_does_not_resolve
rounding.ZERO            1e10               smallest normals      doubting a function that is zero on one side
    unit/numerics/test_difference.py::test_relu_near_its_kink
sampling.EPS64           eps                unit roundoff         bounds for another arithmetic than float64
    unit/numerics/test_difference.py::test_steep
sampling.MANTISSA        0.423606797749979  share of a power      steps that meet round numbers, or repeat roundings
    unit/numerics/test_one_sided.py::test_kind_by_name
sampling.MANY            2**14              coordinates           temporary arrays as long as the point
    unit/numerics/test_sampling.py::test_steps_of_millions_of_coordinates_take_little_memory
tableau.SPAN             1100.0             ratio of steps        columns that add nothing but rounding, or too few
    unit/numerics/test_difference.py::test_steep
tableau.LEAST            2                  columns               entries whose truncation no change has shown yet
    unit/numerics/test_tableau.py::test_entry_of_a_polynomial_is_exact
tableau.WITNESSES        3                  differences           entries that no finer difference could contradict
    unit/numerics/test_difference.py::test_step_over_a_pole
tableau.ORDERLY          1.5                ratio of changes      ending the reach of a series at its second term
    unit/numerics/test_tableau.py::test_entry_of_a_polynomial_is_exact
tableau.DIVERGENT        4.0                theta                 changes across a kink that are small by chance
    unit/numerics/test_difference.py::test_kink_at_the_point_is_covered_by_the_bound
tableau.FASTEST          8                  power of the step     taking the last stair for a slope of zero
    unit/numerics/test_difference.py::test_a_power_that_vanishes_to_both_sides_has_a_slope_of_zero
tableau.SAFETY           2.0                truncations           bounds that the next term of the series exceeds
    unit/numerics/test_calibration.py::test_no_point_outside
tableau.SUMMATION        4*eps              share of differences  bounds below the rounding of an entry's own sums
    unit/numerics/test_tableau.py::test_the_sums_of_an_entry_round_though_the_differences_do_not
"""
