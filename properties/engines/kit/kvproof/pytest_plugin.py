# SPDX-License-Identifier: Apache-2.0
"""A fixture for pytest, which the wheel registers:

    def test_my_pool(kvproof_check):
        kvproof_check(MyAdapter, "--operations=500")

MyAdapter is an adapter class of a file that can be imported. The test fails with the finding of
`kvproof check`, and is skipped where there is no program kvproof.
"""

import pytest

from kvproof import program


@pytest.fixture
def kvproof_check():
    path = program.find_program()
    if path is None:
        pytest.skip("no program kvproof: neither KVPROOF names one, nor is one on PATH")

    def checked(adapter, *options):
        code, output = program.check(adapter, *options, program=path)
        if code != 0:
            pytest.fail(program.finding_of(output), pytrace=False)
    return checked
