"""Find what would block the drain of a libvirt host: one pass of reads, as the core's facts.

`check` reads and hands the facts to the core, which judges. It changes nothing on any host.
"""
