"""The look of the pages: one style sheet, light and dark, from 320 pixels up."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --soft: #5b6577; --paper: #fbfaf8; --card: #fff; --line: #e2dfd8;
  --link: #1d4fa8; --wrong: #b3261e; --wrong-soft: #fbe6e3; --right: #1b6e4a; --right-soft: #dff1e7; --doubt: #7a5600;
  --doubt-soft: #fbefcf; --known: #5a3d9c; --known-soft: #ebe4f9; --code: #f4f2ed; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e4df; --soft: #a3a9b5; --paper: #14171d; --card: #1c2028;
  --line: #353b47; --link: #8ab4f8; --wrong: #ff9a8f; --wrong-soft: #47211e; --right: #7fd8a8; --right-soft: #173a2a;
  --doubt: #f2c65c; --doubt-soft: #43350f; --known: #c5afff; --known-soft: #33294f; --code: #12151a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: break-word;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: clamp(1.4rem, 4.5vw, 2rem); line-height: 1.2; margin: .4rem 0 .8rem; text-wrap: balance; }
h2 { font-size: 1.15rem; margin: 0 0 .75rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; }
p { margin: .5rem 0; max-width: 46rem; }
a { color: var(--link); }
small, .soft, figcaption { color: var(--soft); font-size: .875rem; }
code, pre, .numbers td { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
code { font-size: .9em; background: var(--code); border-radius: 4px; padding: .05em .3em; }
pre { font-size: .8125rem; line-height: 1.5; background: var(--code); border: 1px solid var(--line); border-radius: 8px;
  padding: .8rem 1rem; margin: .6rem 0; overflow-x: auto; tab-size: 4; }
pre.long { max-height: 32rem; overflow-y: auto; }
pre code { background: none; padding: 0; font-size: inherit; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 1rem 1.15rem;
  margin: 1rem 0; }
.lead { font-size: 1.1rem; }
.badge { display: inline-block; border-radius: 99px; padding: .12rem .65rem; font-size: .8125rem; font-weight: 600;
  background: var(--code); white-space: nowrap; }
.badge.wrong { background: var(--wrong-soft); color: var(--wrong); }
.badge.right { background: var(--right-soft); color: var(--right); }
.badge.doubt { background: var(--doubt-soft); color: var(--doubt); }
.badge.known { background: var(--known-soft); color: var(--known); }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(8rem, 1fr)); gap: .6rem; margin: 1rem 0 0; }
.facts div { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: .55rem .8rem;
  min-width: 0; }
.facts dt { color: var(--soft); font-size: .8125rem; }
.facts dd { margin: 0; font-size: 1.05rem; font-weight: 600; font-variant-numeric: tabular-nums;
  overflow-wrap: anywhere; }
.facts dd.wrong { color: var(--wrong); }
.facts dd.right { color: var(--right); }
.pairs { display: grid; grid-template-columns: minmax(7rem, max-content) 1fr; gap: .3rem 1rem; margin: 0; }
.pairs dt { color: var(--soft); }
.pairs dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin: .6rem 0; }
table { border-collapse: collapse; font-size: .875rem; min-width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--soft); font-weight: 600; white-space: nowrap; }
th, td { padding: .32rem .8rem .32rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td, tr.joined td { border-bottom: 0; }
.numbers td { font-size: .8125rem; white-space: nowrap; }
.numbers td.words { font-family: inherit; font-size: .875rem; white-space: normal; min-width: 7rem; }
.numbers td.words:last-child { min-width: 11rem; }
.number + td, .number + th { padding-left: .6rem; }
.numbers td[colspan] { color: var(--soft); padding-top: 0; }
.numbers td[colspan] div { position: sticky; left: 0; width: fit-content; max-width: min(46rem, 100vw - 4.5rem); }
.number, th.number { text-align: right; }
tr.culprit td { background: var(--wrong-soft); }
figure { margin: .5rem 0; }
svg { max-width: 100%; height: auto; }
svg.graph, svg.heat { max-width: none; }
svg.graph text, svg.heat text { font: 13px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  fill: var(--ink); }
svg.graph .name { font-weight: 700; }
svg.graph .node rect { fill: var(--paper); stroke: var(--soft); stroke-width: 1.3; }
svg.graph .culprit rect { fill: var(--wrong-soft); stroke: var(--wrong); stroke-width: 2.2; }
svg.graph .wrong rect { stroke: var(--wrong); stroke-dasharray: 5 3; }
svg.graph .edge { fill: none; stroke: var(--soft); stroke-width: 1.4; }
svg.curve { width: 100%; max-width: 40rem; }
.heat0 { fill: var(--line); } .heat1 { fill: var(--right-soft); } .heat2 { fill: var(--doubt-soft); }
.heat3 { fill: var(--wrong-soft); stroke: var(--wrong); } .heat4 { fill: var(--wrong); }
svg.heat text.on4 { fill: var(--card); font-weight: 700; }
details > summary { cursor: pointer; color: var(--link); padding: .15rem 0; }
ol.plain, ul.plain { list-style: none; margin: 0; padding: 0; }
.item { border-bottom: 1px solid var(--line); padding: .6rem 0; }
.item:last-child { border-bottom: 0; }
.map { display: grid; grid-template-columns: repeat(auto-fill, minmax(13.5rem, 1fr)); gap: .1rem .8rem; }
.op { display: flex; align-items: center; gap: .2rem; font-size: .8125rem; min-width: 0; }
.op span { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; padding-left: .25rem; }
.cell { flex: none; width: 1.25rem; height: 1.25rem; border-radius: 4px; text-align: center; line-height: 1.25rem;
  font-size: .75rem; font-style: normal; font-weight: 700; background: var(--code); color: var(--soft); }
.cell.green { background: var(--right-soft); color: var(--right); }
.cell.yellow { background: var(--doubt-soft); color: var(--doubt); }
.cell.red { background: var(--wrong-soft); color: var(--wrong); }
.cell.known { background: var(--known-soft); color: var(--known); }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; margin: .5rem 0 1rem; font-size: .875rem; }
.legend span { display: flex; gap: .4rem; align-items: center; }
.bar { display: block; height: .8rem; border-radius: 3px; background: var(--link); min-width: 2px; }
a:focus-visible, summary:focus-visible, .scroll:focus-visible, pre:focus-visible { outline: 2px solid var(--link);
  outline-offset: 2px; }
@media (max-width: 30rem) { .pairs { grid-template-columns: 1fr; gap: 0; } .pairs dd { margin-bottom: .5rem; }
  section { padding: .8rem .85rem; border-radius: 10px; } }
@media print { body { background: none; } section { break-inside: avoid; } }
"""
