//! Times, durations, prices and sizes as people read them. All times are UTC.

use cairn_engine::event::WaitReason;
use cairn_engine::message::Usage;
use cairn_engine::session::RunStatus;

pub use cairn_engine::text::size;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// `2024-01-15 14:30:25`, of milliseconds since 1970.
pub fn date_time(at_ms: u64) -> String {
    format!("{} {}", date(at_ms), clock(at_ms))
}

/// `14:30:25`, of milliseconds since 1970.
pub fn clock(at_ms: u64) -> String {
    let seconds = at_ms % DAY_MS / 1000;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}", seconds % 60)
}

/// `2024-01-15T14:30:25.123Z`, of milliseconds since 1970.
pub fn rfc3339(at_ms: u64) -> String {
    let (date, clock) = (date(at_ms), clock(at_ms));
    format!("{date}T{clock}.{:03}Z", at_ms % 1000)
}

/// `2024-01-15`, of milliseconds since 1970.
pub fn date(at_ms: u64) -> String {
    // Days to year, month and day in the Gregorian calendar, by eras of 400 years that begin in March.
    let days = at_ms / DAY_MS + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + next_year)
}

/// The score of a hit, which is above 0: `0.62`, or `<0.01` if it would be rounded to 0.
pub fn score(score: f64) -> String {
    let rounded = format!("{score:.2}");
    match rounded.as_str() {
        "0.00" => "<0.01".to_owned(),
        _ => rounded,
    }
}

/// What follows the beginning of a long result: `… of 5.0 MiB, handle result-3`.
pub fn rest_of_result(bytes: u64, handle: &str) -> String {
    format!("… of {}, handle {handle}", size(bytes))
}

/// In 10⁻⁹ dollars.
const CENT: u64 = 10_000_000;

/// A price in dollars without the sign, rounded half up: four decimals, and two significant digits if it
/// is less than a cent.
pub fn dollars(nano_usd: u64) -> String {
    if (1..CENT).contains(&nano_usd) {
        let unit = 10_u64.pow(nano_usd.ilog10().saturating_sub(1));
        let rounded = (nano_usd + unit / 2) / unit;
        let decimals = 9 - unit.ilog10() as usize;
        return format!("0.{rounded:0decimals$}");
    }
    let tenths_of_mills = nano_usd.saturating_add(50_000) / 100_000;
    format!(
        "{}.{:04}",
        tenths_of_mills / 10_000,
        tenths_of_mills % 10_000
    )
}

/// What model calls cost: `$0.0056`, or `not known` if no price of their tokens is. If the price of some
/// is known, their cost.
pub fn cost(usage: &Usage) -> String {
    match known_cost(usage) {
        Some(cost) => format!("${}", dollars(cost)),
        None => "not known".to_owned(),
    }
}

/// The same in 10⁻⁹ dollars; none if it is not known.
pub(crate) fn known_cost(usage: &Usage) -> Option<u64> {
    (usage.cost_nano_usd > 0 || usage.unpriced_tokens == 0).then_some(usage.cost_nano_usd)
}

/// A duration as people say it: `12 ms`, `1.5 s`, `2 min 5 s`, `3 h 4 min`.
pub fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 if ms < 100 => format!("{ms} ms"),
        0..60 => format!("{seconds}.{} s", ms % 1000 / 100),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// The status of a run in small letters, with what it waits for.
pub fn run_status(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Planning => "planning",
        RunStatus::Running => "running",
        RunStatus::Waiting(WaitReason::InDoubt) => "waiting (in doubt)",
        RunStatus::Waiting(WaitReason::Budget) => "waiting (budget)",
        RunStatus::Waiting(WaitReason::Approval) => "waiting (approval)",
        RunStatus::Waiting(WaitReason::Question) => "waiting (question)",
        RunStatus::Waiting(WaitReason::PlanReview) => "waiting (plan review)",
        RunStatus::Waiting(WaitReason::Context) => "waiting (context)",
        RunStatus::Waiting(WaitReason::Capability) => "waiting (capability)",
        RunStatus::Waiting(WaitReason::Hook) => "waiting (hook)",
        RunStatus::Paused => "paused",
        RunStatus::Completed => "completed",
        RunStatus::Failed => "failed",
        RunStatus::Cancelled => "cancelled",
    }
}

/// A number with a comma before each three digits: `1,200`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Tokens that were sent: `9600 (9000 from a cache, 200 to a cache)`.
pub fn input_tokens(usage: &Usage) -> String {
    let kinds = [
        (usage.cached_input_tokens, "from a cache"),
        (usage.cache_write_tokens, "to a cache"),
    ];
    with_kinds(usage.input_tokens, &kinds)
}

/// Tokens that were received: `340 (120 for reasoning)`.
pub fn output_tokens(usage: &Usage) -> String {
    with_kinds(
        usage.output_tokens,
        &[(usage.reasoning_tokens, "for reasoning")],
    )
}

fn with_kinds(tokens: u64, kinds: &[(u64, &str)]) -> String {
    let kinds = kinds.iter().filter(|(tokens, _)| *tokens > 0);
    let kinds: Vec<_> = kinds
        .map(|(tokens, name)| format!("{tokens} {name}"))
        .collect();
    match kinds.is_empty() {
        true => tokens.to_string(),
        false => format!("{tokens} ({})", kinds.join(", ")),
    }
}
