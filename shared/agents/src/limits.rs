//! Limits of an agent: its turns, and what it has below `cairn:`.

use crate::fault::shown;
use crate::fields::{Fields, Vocabulary};
use crate::yaml::Value;
use cairn_engine::command::WhenFull;

const OWN: Vocabulary = Vocabulary {
    whose: "cairn",
    known: &["budgets", "capabilities", "compaction", "window"],
    shown: &[],
    idle: &[],
};
const BUDGETS: Vocabulary = Vocabulary {
    whose: "cairn.budgets",
    known: &["calls", "cost", "time", "tokens"],
    shown: &[],
    idle: &[],
};
const COMPACTION: Vocabulary = Vocabulary {
    whose: "cairn.compaction",
    known: &["at", "keep-turns", "when-full"],
    shown: &[],
    idle: &[],
};
/// Units of times, with their length in milliseconds.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];
const LONGEST_MS: u64 = 365 * 86_400_000;

/// The fields below `cairn:`, which no other program has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CairnFields {
    /// Capabilities that it needs, sorted.
    pub capabilities: Vec<String>,
    /// How much a run of it may use.
    pub budgets: AgentBudgets,
    /// When its conversations become shorter.
    pub compaction: AgentCompaction,
    /// How many of the newest messages before a turn its requests have; none for all.
    pub window: Option<u32>,
}

/// How much a run of an agent may use; none for what the run's settings say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentBudgets {
    /// Tokens, in and out.
    pub tokens: Option<u64>,
    /// Money, in billionths of a US dollar.
    pub cost_nano_usd: Option<u64>,
    /// Active time, in milliseconds.
    pub time_ms: Option<u64>,
    /// Tool calls.
    pub calls: Option<u64>,
}

/// When conversations of an agent become shorter; none for what the settings say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentCompaction {
    /// From so many thousandths of the model's window on.
    pub at_permille: Option<u32>,
    /// The tool turns that stay as they are.
    pub keep_turns: Option<u32>,
    /// What happens at a full window.
    pub when_full: Option<WhenFull>,
}

/// Reads `cairn` out of the fields of a file.
pub(crate) fn own(file: &mut Fields) -> CairnFields {
    let Some(mut fields) = file.map(&["cairn"]) else {
        return CairnFields::default();
    };
    let mut capabilities = fields.names(&["capabilities"]).unwrap_or_default();
    capabilities.sort_unstable();
    capabilities.dedup();
    let own = CairnFields {
        capabilities,
        budgets: budgets(&mut fields),
        compaction: compaction(&mut fields),
        window: fields.small(&["window"], 1..=1_000_000),
    };
    file.found.add(fields.finish(&OWN));
    own
}

fn budgets(own: &mut Fields) -> AgentBudgets {
    let Some(mut fields) = own.map(&["budgets"]) else {
        return AgentBudgets::default();
    };
    let dollars = "dollars, from 0.000001 to 1000000";
    let budgets = AgentBudgets {
        tokens: fields.whole(&["tokens"], 1..=1_000_000_000_000),
        cost_nano_usd: fields.decimal(&["cost"], 9, 1_000..=1_000_000_000_000_000, dollars),
        time_ms: time(&mut fields),
        calls: fields.whole(&["calls"], 1..=1_000_000),
    };
    own.found.add(fields.finish(&BUDGETS));
    budgets
}

fn compaction(own: &mut Fields) -> AgentCompaction {
    let Some(mut fields) = own.map(&["compaction"]) else {
        return AgentCompaction::default();
    };
    let share = "a share of the window, from 0.1 to 0.95";
    let whens = [("compact", WhenFull::Compact), ("refuse", WhenFull::Refuse)];
    let at = fields.decimal(&["at"], 3, 100..=950, share);
    let compaction = AgentCompaction {
        at_permille: at.and_then(|at| u32::try_from(at).ok()),
        keep_turns: fields.small(&["keepturns"], 1..=100),
        when_full: fields.one_of(&["whenfull"], &whens),
    };
    own.found.add(fields.finish(&COMPACTION));
    compaction
}

fn time(fields: &mut Fields) -> Option<u64> {
    const ALLOWED: &str =
        "a whole number with a unit, such as 500ms, 15s, 2m, 1h or 7d, up to 365d";
    let entry = fields.take(&["time"])?;
    let ms = match &entry.value {
        Value::Nothing => return None,
        Value::Text(text) => milliseconds(text),
        _ => None,
    };
    if ms.is_none() {
        fields
            .found
            .error(entry.line, &entry.name, shown(&entry.value), ALLOWED);
    }
    ms
}

/// A time such as `15s`. There is no default unit: a bare number could mean anything.
fn milliseconds(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let ms = number.parse::<u64>().ok()?.checked_mul(*factor)?;
    (1..=LONGEST_MS).contains(&ms).then_some(ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    fn read(text: &str) -> (CairnFields, Vec<String>) {
        let (entries, _) = yaml::read(text, 0, &[]).unwrap();
        let mut file = Fields::new("", entries);
        let own = own(&mut file);
        let faults = file.found.errors.iter().chain(&file.found.warnings);
        (own, faults.map(ToString::to_string).collect())
    }

    #[test]
    fn limits_are_read() {
        let text = "cairn:\n  capabilities: [web_search, file_ops]\n  budgets:\n    tokens: 200000\n    \
            cost: 2.5\n    time: 15m\n    calls: 40\n  compaction:\n    at: 0.6\n    keep-turns: 2\n    \
            whenFull: refuse\n  window: 20\n";
        let (own, faults) = read(text);
        assert_eq!(faults, Vec::<String>::new());
        let expected = CairnFields {
            capabilities: ["file_ops", "web_search"].map(str::to_owned).to_vec(),
            budgets: AgentBudgets {
                tokens: Some(200_000),
                cost_nano_usd: Some(2_500_000_000),
                time_ms: Some(900_000),
                calls: Some(40),
            },
            compaction: AgentCompaction {
                at_permille: Some(600),
                keep_turns: Some(2),
                when_full: Some(WhenFull::Refuse),
            },
            window: Some(20),
        };
        assert_eq!(own, expected);
        assert_eq!(read("cairn:\n").0, CairnFields::default());
    }

    #[test]
    fn each_wrong_limit_has_a_message() {
        for (text, message) in [
            ("cairn: 5", "line 1: cairn is 5 (allowed: a map of fields)"),
            (
                "cairn:\n  budgets:\n    tokens: 0",
                "line 3: cairn.budgets.tokens is 0 (allowed: a whole number from 1 to 1000000000000)",
            ),
            (
                "cairn: {budgets: {cost: \"$2\"}}",
                "line 1: cairn.budgets.cost is \"$2\" (allowed: dollars, from 0.000001 to 1000000)",
            ),
            (
                "cairn: {budgets: {time: 15}}",
                "line 1: cairn.budgets.time is 15 (allowed: a whole number with a unit, such as 500ms, 15s, \
                 2m, 1h or 7d, up to 365d)",
            ),
            (
                "cairn: {compaction: {at: 70}}",
                "line 1: cairn.compaction.at is 70 (allowed: a share of the window, from 0.1 to 0.95)",
            ),
            (
                "cairn: {compaction: {when_full: never}}",
                "line 1: cairn.compaction.when_full is \"never\" (allowed: compact, refuse)",
            ),
            (
                "cairn: {budgets: {tokns: 5}}",
                "line 1: cairn.budgets.tokns is no field of cairn.budgets, did you mean tokens?",
            ),
            (
                "cairn: {window: 0}",
                "line 1: cairn.window is 0 (allowed: a whole number from 1 to 1000000)",
            ),
            (
                "cairn: {colour: red}",
                "line 1: cairn.colour is no field of cairn",
            ),
        ] {
            assert_eq!(read(text).1, [message], "{text}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, ms) in [
            ("1ms", Some(1)),
            ("15m", Some(900_000)),
            ("365d", Some(LONGEST_MS)),
        ] {
            assert_eq!(milliseconds(text), ms);
        }
        for text in [
            "",
            "5",
            "0s",
            "1.5s",
            "5w",
            "366d",
            "99999999999999999999s",
            "s",
            "5 s",
        ] {
            assert_eq!(milliseconds(text), None, "{text}");
        }
    }
}
