"""What hosts answered: those that said nothing useful are left out."""

from __future__ import annotations

from ansible_collections.virtops.maintenance.plugins.filter.measured import measured


def test_clock_and_setting_of_each_host_that_answered() -> None:
    results = [
        {"ansible_loop_var": "host", "host": "a", "stdout": "900.5 901.0 0"},
        {"item": "b", "stdout": "1000.0 990.0 -1"},
        {"item": "c", "stdout": "1099 1099 0\n0\n/etc/pki/qemu\nserver-key.pem\nclient-cert.pem\n"},
        {"item": "gone", "unreachable": True},
        {"item": "odd", "stdout": "sh: not found"},
    ]
    assert measured(results) == [
        {"name": "a", "clock": -49.25, "clock_within": 49.75, "userfaultfd": 0},
        {"name": "b", "clock": -59.5, "clock_within": 49.5, "userfaultfd": -1},
        {
            "name": "c",
            "clock": 0.0,
            "clock_within": 0.0,
            "userfaultfd": 0,
            "tls_verify": False,
            "tls_dir": "/etc/pki/qemu",
            "tls_missing": ["server-key.pem", "client-cert.pem"],
        },
    ]


def test_the_clock_is_compared_with_the_middle_of_question_and_answer() -> None:
    """One had answered before the next one was asked, and the last one before the end."""
    results = [
        {"item": "a", "stdout": "100.0 101.0 0"},
        {"item": "silent", "unreachable": True},
        {"item": "b", "stdout": "112.0 132.0 0"},
    ]
    found = [(one["name"], one["clock"], one["clock_within"]) for one in measured(results, 152.0)]
    assert found == [("a", -5.0, 6.0), ("b", 0.0, 20.0)]
