from benchmarks.data_loading import measure


def test_a_data_set_of_137000_steps_loads_in_3_seconds_and_500_megabytes():
    for name, found in measure().items():
        assert found["steps"] == 137_000, name
        assert found["cpu_seconds"] < 3, (name, found)  # not the wall clock: tests share the machine
        assert found["peak_mb"] < 500, (name, found)
