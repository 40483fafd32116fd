"""The page of a roll's report, for jinja2."""

from __future__ import annotations

_STYLE = """
:root { color-scheme: light dark;
  --page: #f6f7f9; --card: #fff; --text: #1b2430; --soft: #5b6675; --line: #dfe4ea; --track: #eef1f5;
  --good: #1a7f4b; --bad: #c2342b; --warn: #96660a; --busy: #2667c9;
  --draining: #3b7ddd; --empty: #9aa7b8; --at-work: #d99a1c; --rebooting: #8a5cd1; --checking: #1f9aa5;
  --restoring: #39a35f; --failed: #c2342b; --move: #6da3ee; }
@media (prefers-color-scheme: dark) { :root {
  --page: #12161c; --card: #1a2029; --text: #e6ebf2; --soft: #98a4b3; --line: #2c3542; --track: #242c38;
  --good: #5fd093; --bad: #ff8a80; --warn: #f0bf5a; --busy: #8ab6ff;
  --draining: #5a96ee; --empty: #66738a; --at-work: #e0ac45; --rebooting: #a885e6; --checking: #45b9c4;
  --restoring: #56bd7b; --failed: #f0685e; --move: #82b0f2; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 1.5rem 1rem 3rem; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; }
main { max-width: 62rem; margin: 0 auto; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 2rem 0 .6rem; }
h3 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
p { margin: .25rem 0; overflow-wrap: anywhere; }
.soft { color: var(--soft); }
.card, .tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.card { padding: 1rem; margin: 0 0 .75rem; }
.head { display: flex; flex-wrap: wrap; gap: .5rem .75rem; align-items: center; }
.badge { font-weight: 600; font-size: .8rem; border: 1.5px solid currentColor; border-radius: 99px;
  padding: .05rem .6rem; white-space: nowrap; }
.done { color: var(--good); } .failed { color: var(--bad); } .stopped, .aborted, .refused { color: var(--warn); }
  .running, .paused { color: var(--busy); } .plain { color: var(--soft); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .75rem; margin: 1rem 0 0; }
.tile { padding: .7rem .9rem; }
.tile b { display: block; font-size: 1.2rem; line-height: 1.3; white-space: nowrap; }
.tile span { color: var(--soft); font-size: .85rem; }
.row { margin: 0 0 .9rem; }
.row .name { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; font-size: .9rem; }
svg { display: block; width: 100%; }
.track { fill: var(--track); } .grid { stroke: var(--line); } .tick { fill: var(--soft); font-size: 12px; }
.move { fill: var(--move); } .move.bad { fill: var(--failed); }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1rem; font-size: .85rem; color: var(--soft); margin-top: .5rem; }
.legend i { display: inline-block; width: .8rem; height: .8rem; border-radius: 3px; margin-right: .35rem;
  vertical-align: -1px; }
summary { cursor: pointer; }
.vms { list-style: none; margin: .6rem 0 0; padding: 0; }
.vms li { display: flex; flex-wrap: wrap; gap: .1rem .9rem; padding: .4rem 0; border-top: 1px solid var(--line);
  font-variant-numeric: tabular-nums; }
.vms .vm { flex: 1 1 12rem; font-weight: 600; overflow-wrap: anywhere; }
.vms .what { flex: 2 1 16rem; color: var(--soft); overflow-wrap: anywhere; }
.note { border-left: 4px solid var(--warn); } .note.bad { border-left-color: var(--failed); }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .9em; }
footer { color: var(--soft); font-size: .85rem; margin-top: 2rem; }
@media (max-width: 480px) { .tick.between { display: none; } }
@media print { body { background: #fff; } .card, .tile { break-inside: avoid; } }
"""

_COLOURS = "".join(
    f".{stage} {{ fill: var(--{stage}); }} .key-{stage} {{ background: var(--{stage}); }}\n"
    for stage in ("draining", "empty", "at-work", "rebooting", "checking", "restoring", "failed")
).replace(".failed {", "rect.failed {")

TEMPLATE = (
    """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>Roll {{ roll.id | plain }}: {{ title }}</title>
<style>"""
    + _STYLE
    + _COLOURS
    + """</style>
</head>
<body>
<main>
<div class="head">
<h1>Rolling maintenance {{ roll.id | plain }}</h1>
<span class="badge {{ doc.outcome }}">{{ title }}</span>
</div>
{% if doc.why %}
<p class="{{ doc.outcome }}">{{ doc.why | plain }}</p>
{% endif %}
{% if roll.reason %}
<p>{{ roll.reason | plain }}</p>
{% endif %}
<p class="soft">Begun {{ roll.begun }}{% if roll.requester %} by {{ roll.requester | plain }}{% endif %}.
At most {{ roll.max_unavailable }} out at once
{%- for key, most in roll.max_unavailable_per | dictsort %}, {{ most }} per {{ key | plain }}{% endfor %}.</p>

<div class="tiles">
<div class="tile"><b>{{ totals.done }}/{{ totals.hosts }}</b><span>hosts done</span></div>
<div class="tile"><b>{{ totals.vms }}</b><span>VMs, counted per host\
{{ ": " if totals.vms }}{{ totals | counted }}</span></div>
<div class="tile"><b>{{ totals.outage_ms | default(none) | outage }}</b>\
<span>longest outage of a guest</span></div>
<div class="tile"><b>{{ totals.retries }}</b><span>{{ "retry" if totals.retries == 1 else "retries" }}</span></div>
<div class="tile"><b>{{ totals.seconds | long }}</b><span>in all\
{% if roll.idle %}, not counted: {{ roll.idle | long }} until it was resumed{% endif %}</span></div>
</div>

{% if attention %}
<h2>What to look at</h2>
{% for one in attention %}
<div class="card note {{ 'bad' if one.bad }}">
<h3>{{ one.who | join(", ") | plain }} <span class="badge {{ 'failed' if one.bad else 'stopped' }}">\
{{ one.code }}</span></h3>
<p>{{ (one.message or "") | plain }}</p>
{% if one.remedy %}
<p><b>What helps:</b> {{ one.remedy | plain }}</p>
{% endif %}
</div>
{% endfor %}
{% endif %}

<h2>Time line</h2>
<div class="card">
{% for host in hosts %}
<div class="row">
<div class="name"><b>{{ host.name | plain }}</b>
<span class="soft">{{ host.is }}{% if host.seconds is not none %}, {{ host.seconds | long }}{% endif %}\
{% if host.idle %} (not counted: {{ host.idle | long }} until it was resumed){% endif %}</span></div>
<svg height="{{ bar + 3 + lane * host.lanes }}" role="img"
 aria-label="{{ host.name | plain }}: {{ host.is }}\
{% for one in host.bars %}, {{ one.stage }} {{ one.took }}{% endfor %}">
<rect class="track" x="0" y="0" width="100%" height="{{ bar }}" rx="3"/>
{% for one in host.bars %}
<rect class="{{ one.stage | slug }}" x="{{ one.x }}%" y="0" width="{{ one.width }}%" height="{{ bar }}">\
<title>{{ one.stage }}: {{ one.took }}</title></rect>
{% endfor %}
{% for one in host.moves %}
<rect class="move {{ 'bad' if one.vm.verdict in ('blocked', 'lost') }}" x="{{ one.x }}%"
 y="{{ bar + 3 + lane * one.lane }}" width="{{ one.width }}%" height="{{ lane - 3 }}" rx="2">\
<title>{{ one.vm.name | plain }}: {{ one.vm.verdict }}{% if one.vm.target %} to {{ one.vm.target | plain }}{% endif %}\
, {{ one.vm.duration }} s</title></rect>
{% endfor %}
</svg>
</div>
{% endfor %}
<svg height="20" aria-hidden="true">
<line class="grid" x1="0" x2="100%" y1="1" y2="1"/>
{% for tick in ticks %}
<text class="tick{{ ' between' if loop.index0 is odd }}" x="{{ tick.x }}%" y="16"
 text-anchor="{{ tick.anchor }}">{{ tick.text }}</text>
{% endfor %}
</svg>
<div class="legend">
{% for stage in stages %}
<span><i class="key-{{ stage | slug }}"></i>{{ stage }}</span>
{% endfor %}
{% if hosts | sum(attribute="lanes") %}
<span><i style="background: var(--move)"></i>a VM migrates</span>
{% endif %}
<span>times in UTC</span>
</div>
</div>

<h2>Hosts and their VMs</h2>
{% for host in hosts %}
<details class="card"{% if few or host.stage == "failed" %} open{% endif %}>
<summary><b>{{ host.name | plain }}</b>
<span class="badge {{ host.stage if host.stage in ('done', 'failed') else 'plain' }}">{{ host.is }}</span>
<span class="soft">{% set number = host.tally.vms or 0 %}\
{{ "" if host.stage == "waiting" else number ~ (" VM" if number == 1 else " VMs") }}\
{{ ": " if host.tally.vms }}{{ host.tally | counted }}\
{% if host.seconds is not none %}; the host took {{ host.seconds | long }}{% endif %}</span></summary>
{% if host.message %}
<p>{{ host.message | plain }}</p>
{% endif %}
{% if host.certificate %}
<p class="soft">Certificate of run {{ host.certificate.run_id | plain }}: read empty twice, all VMs accounted for: \
{{ host.vms | length }}.</p>
{% elif host.stage not in ("waiting", "draining") %}
<p class="soft">No certificate: its drain did not come to its end, or had no report.</p>
{% endif %}
{% if host.vms %}
<ul class="vms">
{% for vm in host.vms %}
<li><span class="vm">{{ vm.name | plain }}</span>
<span class="what">{{ vm.verdict | replace("cold_moved", "moved cold") }}\
{% if vm.verdict in ("moved", "cold_moved") and (vm.at or vm.target) %} &rarr; {{ (vm.at or vm.target) | plain }}\
{% endif %}\
{% if vm.duration %}, {{ "%.1f" | format(vm.duration) }} s{% endif %}\
{% if vm.outage_ms is not none %}, outage {{ vm.outage_ms | outage }}{% endif %}\
{% if vm.attempts and vm.attempts > 1 %}, {{ vm.attempts }} attempts{% endif %}\
{% if vm.processed_mib %}, {{ "%.0f" | format(vm.processed_mib) }} MiB{% endif %}\
{% if vm.start %}, {{ vm.start | clock }}{% endif %}\
{% set known = vm.duration and vm.predicted and vm.predicted.seconds is not none %}\
{% set took = "" if not known else "%.1f s" | format(vm.predicted.seconds) %}\
{% if vm.predicted and vm.predicted.target %} (the plan said {{ vm.predicted.target | plain }}\
{{ " in " if took }}{{ took }})\
{% elif took %} (the plan said {{ took }}){% endif %}\
{% for step in vm.steps or () %}; {{ step | plain }}{% endfor %}\
{% if vm.after %}; {{ vm.after | plain }}{% endif %}</span></li>
{% endfor %}
</ul>
{% else %}
<p class="soft">{{ "It was not begun." if host.is == "not begun" else "It waits for its turn."\
 if host.stage == "waiting" else "No VMs." }}</p>
{% endif %}
</details>
{% endfor %}

<footer>Made from <code>report.json</code> of {{ doc.written }} by virtops.maintenance. It holds all that this page \
shows; <code>junit.xml</code> has a case for each host and VM.</footer>
</main>
</body>
</html>
"""
)
