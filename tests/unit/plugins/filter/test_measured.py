# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What hosts answered: those that said nothing useful are left out."""

from __future__ import annotations

from ansible_collections.virtops.maintenance.plugins.filter.measured import measured


def test_clock_and_setting_of_each_host_that_answered() -> None:
    results = [
        {"ansible_loop_var": "host", "host": "a", "stdout": "100.5 101.0 0"},
        {"item": "b", "stdout": "100.0 90.0 -1"},
        {"item": "c", "stdout": "1 1 0\n0\n/etc/pki/qemu\nserver-key.pem\nclient-cert.pem\n"},
        {"item": "gone", "unreachable": True},
        {"item": "odd", "stdout": "sh: not found"},
    ]
    assert measured(results) == [
        {"name": "a", "clock": 0.5, "userfaultfd": 0},
        {"name": "b", "clock": -10.0, "userfaultfd": -1},
        {
            "name": "c",
            "clock": 0.0,
            "userfaultfd": 0,
            "tls_verify": False,
            "tls_dir": "/etc/pki/qemu",
            "tls_missing": ["server-key.pem", "client-cert.pem"],
        },
    ]
