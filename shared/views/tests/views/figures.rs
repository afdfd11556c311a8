//! Times, durations and prices.

use cairn_engine::event::WaitReason;
use cairn_engine::message::Usage;
use cairn_engine::session::RunStatus;
use cairn_views::figures::{
    clock, cost, date, date_time, dollars, duration, grouped, rest_of_result, rfc3339, run_status,
    size,
};

#[test]
fn dates_are_those_of_the_gregorian_calendar() {
    let cases = [
        (0, "1970-01-01 00:00:00"),
        (86_399_999, "1970-01-01 23:59:59"),
        (951_782_400_000, "2000-02-29 00:00:00"),
        (951_868_800_000, "2000-03-01 00:00:00"),
        (1_078_012_799_000, "2004-02-28 23:59:59"),
        (1_705_329_025_999, "2024-01-15 14:30:25"),
        (1_735_689_599_000, "2024-12-31 23:59:59"),
        (1_735_689_600_000, "2025-01-01 00:00:00"),
        (4_107_542_400_000, "2100-03-01 00:00:00"),
        (4_107_456_000_000, "2100-02-28 00:00:00"),
        (253_402_300_799_000, "9999-12-31 23:59:59"),
    ];
    for (at, expected) in cases {
        assert_eq!(date_time(at), expected);
        assert!(expected.starts_with(&format!("{} ", date(at))));
    }
    assert_eq!(clock(1_705_329_025_999), "14:30:25");
    assert_eq!(rfc3339(1_705_329_025_007), "2024-01-15T14:30:25.007Z");
    assert!(!date_time(u64::MAX).is_empty());
}

#[test]
fn every_day_follows_the_one_before() {
    let mut before = date_time(0);
    for day in 1..=(400 * 366) {
        let next = date_time(day * 86_400_000);
        assert!(next > before, "{before} then {next}");
        before = next;
    }
}

#[test]
fn prices_have_four_decimals_and_small_ones_two_digits() {
    let cases = [
        (0, "0.0000"),
        (1, "0.000000001"),
        (42, "0.000000042"),
        (20_000, "0.000020"),
        (39_499, "0.000039"),
        (49_999, "0.000050"),
        (50_000, "0.000050"),
        (9_949_999, "0.0099"),
        (9_999_999, "0.0100"),
        (10_049_999, "0.0100"),
        (5_000_000, "0.0050"),
        (15_000_000, "0.0150"),
        (999_950_000, "1.0000"),
        (12_345_678_900_000, "12345.6789"),
    ];
    for (nano, expected) in cases {
        assert_eq!(dollars(nano), expected);
    }
    assert!(!dollars(u64::MAX).is_empty());
}

#[test]
fn a_price_of_zero_is_a_known_one() {
    let usage = |cost_nano_usd, unpriced_tokens| Usage {
        input_tokens: 20,
        cost_nano_usd,
        unpriced_tokens,
        ..Usage::default()
    };
    let cases = [
        (usage(0, 0), "$0.0000"),
        (usage(0, 20), "not known"),
        (usage(5_000_000, 10), "$0.0050"),
        (Usage::default(), "$0.0000"),
    ];
    for (usage, expected) in cases {
        assert_eq!(cost(&usage), expected, "{usage:?}");
    }
}

#[test]
fn durations_are_said_as_people_say_them() {
    let cases = [
        (0, "0 ms"),
        (99, "99 ms"),
        (100, "0.1 s"),
        (1_250, "1.2 s"),
        (59_999, "59.9 s"),
        (60_000, "1 min 0 s"),
        (3_599_999, "59 min 59 s"),
        (3_600_000, "1 h 0 min"),
        (100_000_000, "27 h 46 min"),
    ];
    for (ms, expected) in cases {
        assert_eq!(duration(ms), expected);
    }
}

#[test]
fn a_status_says_what_is_waited_for() {
    assert_eq!(
        run_status(RunStatus::Waiting(WaitReason::InDoubt)),
        "waiting (in doubt)"
    );
    assert_eq!(
        run_status(RunStatus::Waiting(WaitReason::Context)),
        "waiting (context)"
    );
    assert_eq!(
        run_status(RunStatus::Waiting(WaitReason::Capability)),
        "waiting (capability)"
    );
    assert_eq!(
        run_status(RunStatus::Waiting(WaitReason::Hook)),
        "waiting (hook)"
    );
    assert_eq!(run_status(RunStatus::Cancelled), "cancelled");
}

#[test]
fn numbers_have_commas() {
    for (number, want) in [
        (0, "0"),
        (999, "999"),
        (1_000, "1,000"),
        (12_345_678, "12,345,678"),
    ] {
        assert_eq!(grouped(number), want);
    }
}

#[test]
fn sizes_have_one_decimal() {
    for (bytes, expected) in [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (32_000, "31.2 KiB"),
        ((1 << 20) - 1, "1023.9 KiB"),
        (5 << 20, "5.0 MiB"),
        (u64::MAX, "1759218604441.5 MiB"),
    ] {
        assert_eq!(size(bytes), expected);
    }
    let rest = rest_of_result(5 << 20, "result-3");
    assert_eq!(rest, "… of 5.0 MiB, handle result-3");
}
