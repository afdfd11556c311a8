//! What is wrong with a definition. The settings and the requests of clients are checked by the same rules.

use crate::{Definition, HostUrl, LONGEST_TIMEOUT, Means, ProgramConfig, SHORTEST_TIMEOUT};
use cairn_agents::is_name;
use cairn_engine::hooks::{Point, Points};
use cairn_engine::rules::NamePattern;
use std::time::Duration;

const NAME_RULE: &str =
    "1 to 64 letters, digits, '.', '_' and '-', of which the first is a letter or a digit";
const PATTERN_RULE: &str = "names, and patterns such as \"review*\"";
/// Most patterns of a list.
const MAX_PATTERNS: usize = 100;
/// Most bytes of a pattern.
const MAX_PATTERN: usize = 256;
/// Most bytes of an address.
const MAX_URL: usize = 2048;
/// Variables that are set for a program and cannot be asked for.
const OWN_VARIABLES: [&str; 3] = ["CAIRN_HOOK_KEY", "PATH", "TRACEPARENT"];

/// A fault of one field of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The field, by its name in the settings and in the contract.
    pub field: &'static str,
    /// How programs tell it from others.
    pub kind: FaultKind,
    /// Reads on from the name of the field: "is empty".
    pub problem: String,
    /// What the field may have.
    pub allowed: String,
}

/// The kind of a [`Fault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The field is required and empty.
    Missing,
    /// The field is no name.
    Name,
    /// The field has too many bytes.
    TooLong,
    /// The field has another wrong value.
    Value,
}

impl Fault {
    fn new(field: &'static str, kind: FaultKind, problem: String, allowed: &str) -> Self {
        Self {
            field,
            kind,
            problem,
            allowed: allowed.to_owned(),
        }
    }

    fn value(field: &'static str, problem: String, allowed: &str) -> Self {
        Self::new(field, FaultKind::Value, problem, allowed)
    }
}

impl Definition {
    /// Every fault of the definition, at most one for each field.
    pub fn faults(&self) -> Vec<Fault> {
        let agents = self.agents.as_deref().unwrap_or_default();
        let found = [
            fault_of_name(&self.name),
            fault_of_points(self.points),
            fault_of_patterns("agents", agents),
            fault_of_tools(self.points, &self.tools),
            fault_of_timeout(self.policy.timeout),
        ];
        let mut faults: Vec<_> = found.into_iter().flatten().collect();
        match &self.means {
            Means::InProcess => {}
            Means::Program(program) => {
                faults.extend(fault_of_command(program));
                faults.extend(fault_of_env(program));
            }
            Means::Host(url) => faults.extend(fault_of_url(url)),
        }
        faults
    }
}

/// Why a text is no name of a hook.
pub fn fault_of_name(name: &str) -> Option<Fault> {
    let (kind, problem) = match name {
        "" => (FaultKind::Missing, "is empty".to_owned()),
        name if is_name(name) => return None,
        name => (FaultKind::Name, format!("is {name:?}")),
    };
    Some(Fault::new("name", kind, problem, NAME_RULE))
}

/// The names of all points, in their order.
pub fn point_names() -> String {
    let names: Vec<_> = Point::ALL.iter().map(|point| point.name()).collect();
    names.join(", ")
}

fn fault_of_points(points: Points) -> Option<Fault> {
    (points == Points::default()).then(|| {
        let problem = "is empty".to_owned();
        Fault::new("points", FaultKind::Missing, problem, &point_names())
    })
}

fn fault_of_tools(points: Points, tools: &[String]) -> Option<Fault> {
    let is_about_calls = points.has(Point::PreToolCall) || points.has(Point::PostToolCall);
    if tools.is_empty() || is_about_calls {
        return fault_of_patterns("tools", tools);
    }
    let problem = "is set, but the hook is not asked about calls".to_owned();
    let allowed = "PreToolCall or PostToolCall in points";
    Some(Fault::value("tools", problem, allowed))
}

fn fault_of_patterns(field: &'static str, patterns: &[String]) -> Option<Fault> {
    if patterns.len() > MAX_PATTERNS {
        let problem = format!("has {} patterns", patterns.len());
        let allowed = format!("at most {MAX_PATTERNS}");
        return Some(Fault::value(field, problem, &allowed));
    }
    patterns.iter().find_map(|pattern| {
        if pattern.len() > MAX_PATTERN {
            let problem = format!("has a pattern of {} bytes", pattern.len());
            let allowed = format!("at most {MAX_PATTERN} bytes");
            return Some(Fault::new(field, FaultKind::TooLong, problem, &allowed));
        }
        let is_readable = !pattern.is_empty() && !pattern.contains('\0');
        let is_pattern = is_readable && NamePattern::new(pattern).is_ok();
        let problem = || format!("has {pattern:?}");
        (!is_pattern).then(|| Fault::value(field, problem(), PATTERN_RULE))
    })
}

fn fault_of_timeout(timeout: Duration) -> Option<Fault> {
    let range = SHORTEST_TIMEOUT..=LONGEST_TIMEOUT;
    (!range.contains(&timeout)).then(|| {
        let allowed = timeouts();
        Fault::value("timeout", format!("is {timeout:?}"), &allowed)
    })
}

/// The timeouts that can be set, in words.
pub fn timeouts() -> String {
    format!("{SHORTEST_TIMEOUT:?} to {LONGEST_TIMEOUT:?}")
}

fn fault_of_command(program: &ProgramConfig) -> Option<Fault> {
    let has_program = program.argv.first().is_some_and(|it| !it.is_empty());
    let is_readable = program.argv.iter().all(|word| !word.contains('\0'));
    if has_program && is_readable {
        return None;
    }
    let problem = "has no program, or a zero byte".to_owned();
    let allowed = "a program and its arguments, such as [\"python3\", \"guard.py\"]";
    Some(Fault::value("command", problem, allowed))
}

fn fault_of_env(program: &ProgramConfig) -> Option<Fault> {
    let is_wrong = |name: &&String| {
        let is_name = !name.is_empty() && !name.contains(['=', '\0']);
        !is_name || OWN_VARIABLES.contains(&name.as_str())
    };
    let name = program.env.iter().find(is_wrong)?;
    let allowed = format!("names of variables; a program has {OWN_VARIABLES:?} anyway");
    Some(Fault::value("env", format!("has {name:?}"), &allowed))
}

fn fault_of_url(url: &str) -> Option<Fault> {
    if url.len() > MAX_URL {
        let problem = format!("has {} bytes", url.len());
        let allowed = format!("at most {MAX_URL} bytes");
        return Some(Fault::new("url", FaultKind::TooLong, problem, &allowed));
    }
    url.parse::<HostUrl>().err().map(|_| {
        let allowed = "http://host:port, https://host:port or unix:/path/to/socket";
        Fault::value("url", "is no address of a service".to_owned(), allowed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;

    fn guard() -> Definition {
        Definition {
            name: "guard".to_owned(),
            points: [Point::PreToolCall, Point::OnError].into_iter().collect(),
            agents: Some(vec!["review*".to_owned()]),
            tools: vec!["shell_exec".to_owned()],
            means: program(&["sh", "guard.sh"], &["HOME"]),
            policy: Policy::default(),
        }
    }

    fn program(argv: &[&str], env: &[&str]) -> Means {
        let owned = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect();
        Means::Program(ProgramConfig {
            argv: owned(argv),
            env: owned(env),
        })
    }

    #[test]
    fn a_right_definition_has_no_fault() {
        let host = |url: &str| Definition {
            means: Means::Host(url.to_owned()),
            ..guard()
        };
        let hosts = ["https://h", "http://h:1", "unix:/run/hook.sock"];
        for definition in hosts.map(host).into_iter().chain([guard()]) {
            assert!(definition.faults().is_empty(), "{definition:?}");
        }
    }

    #[test]
    fn each_wrong_field_is_named_with_its_kind() {
        use FaultKind::{Missing, Name, TooLong, Value};
        type Change = fn(&mut Definition);
        let changes: [(&str, FaultKind, Change); 20] = [
            ("name", Missing, |it| it.name.clear()),
            ("name", Name, |it| it.name = "a b".to_owned()),
            ("points", Missing, |it| {
                (it.points, it.tools) = (Points::default(), Vec::new());
            }),
            ("tools", Value, |it| {
                it.points = Points::default().with(Point::OnError);
            }),
            ("tools", Value, |it| it.tools = vec!["t".to_owned(); 101]),
            ("tools", Value, |it| it.tools = vec!["a[".to_owned()]),
            ("tools", TooLong, |it| it.tools = vec!["t".repeat(257)]),
            ("agents", Value, |it| it.agents = Some(vec![String::new()])),
            ("agents", Value, |it| {
                it.agents = Some(vec!["a\0".to_owned()]);
            }),
            ("timeout", Value, |it| {
                it.policy.timeout = Duration::from_millis(99);
            }),
            ("timeout", Value, |it| {
                it.policy.timeout = Duration::from_secs(61);
            }),
            ("command", Value, |it| it.means = program(&[], &[])),
            ("command", Value, |it| it.means = program(&[""], &[])),
            ("command", Value, |it| it.means = program(&["a", "\0"], &[])),
            ("env", Value, |it| it.means = program(&["a"], &[""])),
            ("env", Value, |it| it.means = program(&["a"], &["A=B"])),
            ("env", Value, |it| it.means = program(&["a"], &["PATH"])),
            ("url", Value, |it| it.means = Means::Host("h:1".to_owned())),
            ("url", Value, |it| it.means = Means::Host(String::new())),
            ("url", TooLong, |it| {
                it.means = Means::Host(format!("http://{}", "h".repeat(2048)));
            }),
        ];
        for (field, kind, change) in changes {
            let mut wrong = guard();
            change(&mut wrong);
            let faults = wrong.faults();
            let found: Vec<_> = faults.iter().map(|it| (it.field, it.kind)).collect();
            assert_eq!(found, [(field, kind)], "{faults:?}");
        }
    }

    #[test]
    fn all_faults_are_found_at_once() {
        let wrong = Definition {
            name: String::new(),
            points: Points::default(),
            agents: Some(vec![String::new()]),
            tools: vec!["t".to_owned()],
            means: program(&[""], &["PATH"]),
            policy: Policy {
                timeout: Duration::ZERO,
                on_error: None,
            },
        };
        let fields: Vec<_> = wrong.faults().iter().map(|it| it.field).collect();
        let all = [
            "name", "points", "agents", "tools", "timeout", "command", "env",
        ];
        assert_eq!(fields, all);
    }
}
