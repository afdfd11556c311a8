//! What clients choose of a hook, on its way to them and from them.

use cairn_agents::is_name;
use cairn_engine::hooks::{Point, Points};
use cairn_engine::rules::NamePattern;
use cairn_hooks::{
    DEFAULT_TIMEOUT, Definition, HostUrl, LONGEST_TIMEOUT, Means, OnError, Policy, SHORTEST_TIMEOUT,
};
use cairn_proto::api as pb;
use cairn_proto::time::duration;
use cairn_rpc::{RpcError, check_text};
use std::time::Duration;

const NAME_RULE: &str =
    "1 to 64 letters, digits, '.', '_' and '-', of which the first is a letter or a digit";
const URL_RULE: &str = "http://host:port or https://host:port, without user and path";
/// Most patterns of a list.
const MAX_PATTERNS: usize = 100;
/// Most bytes of a pattern.
const MAX_PATTERN: usize = 256;
/// Most bytes of an address.
const MAX_URL: usize = 2048;

/// Reads the definition of a stored hook. `field` stands before the names of its fields in errors, such as `hook.`.
///
/// # Errors
/// InvalidArgument that names the first field that is wrong.
pub(crate) fn read(field: &str, asked: &pb::HookDefinition) -> Result<Definition, RpcError> {
    let at = |name: &str| format!("{field}{name}");
    check_name(&at("name"), &asked.name)?;
    let points = points(&at("points"), &asked.points)?;
    let agents = asked.agents.as_ref().map(|it| it.patterns.clone());
    check_patterns(&at("agents"), agents.as_deref().unwrap_or_default())?;
    check_patterns(&at("tools"), &asked.tools)?;
    let is_about_calls = points.has(Point::PreToolCall) || points.has(Point::PostToolCall);
    if !asked.tools.is_empty() && !is_about_calls {
        let error = RpcError::invalid(at("tools"), "is set, and the hook is not asked about calls");
        return Err(error.allowed("PreToolCall or PostToolCall in points beside it"));
    }
    Ok(Definition {
        name: asked.name.clone(),
        points,
        agents,
        tools: asked.tools.clone(),
        means: Means::Host(url(&at("url"), &asked.url)?),
        policy: Policy {
            timeout: timeout(&at("timeout"), asked)?,
            on_error: on_error(&at("on_error"), asked.on_error)?,
        },
    })
}

/// The definition of a hook for clients.
pub(crate) fn message(definition: &Definition) -> pb::HookDefinition {
    let points = Point::ALL.iter().copied();
    let points = points.filter(|point| definition.points.has(*point));
    let patterns = |patterns| pb::HookPatterns { patterns };
    let timeout = definition.policy.timeout.as_millis();
    pb::HookDefinition {
        name: definition.name.clone(),
        points: points.map(|point| point as i32).collect(),
        agents: definition.agents.clone().map(patterns),
        tools: definition.tools.clone(),
        url: match &definition.means {
            Means::Host(url) => url.clone(),
            Means::InProcess | Means::Program(_) => String::new(),
        },
        timeout: Some(duration(u64::try_from(timeout).unwrap_or(u64::MAX))),
        on_error: match definition.policy.on_error {
            None => pb::HookOnError::Unspecified,
            Some(OnError::Block) => pb::HookOnError::Block,
            Some(OnError::Proceed) => pb::HookOnError::Proceed,
        }
        .into(),
    }
}

/// # Errors
/// InvalidArgument, unless a hook may have the name.
pub(crate) fn check_name(field: &str, name: &str) -> Result<(), RpcError> {
    let refuse = |problem: &str, reason| {
        let error = RpcError::invalid(field, problem).allowed(NAME_RULE);
        Err(error.reason(reason))
    };
    match name {
        "" => refuse("is empty", "FIELD_MISSING"),
        name if is_name(name) => Ok(()),
        _ => refuse("is no name of a hook", "ID_INVALID"),
    }
}

fn points(field: &str, asked: &[i32]) -> Result<Points, RpcError> {
    let names = || {
        let names: Vec<_> = Point::ALL.iter().map(|point| point.name()).collect();
        names.join(", ")
    };
    if asked.is_empty() {
        let error = RpcError::invalid(field, "is empty").reason("FIELD_MISSING");
        return Err(error.allowed(names()));
    }
    let mut points = Points::default();
    for number in asked {
        let mut known = Point::ALL.iter().copied();
        let Some(point) = known.find(|point| *point as i32 == *number) else {
            let error = RpcError::invalid(field, format!("has the unknown point {number}"));
            return Err(error.allowed(names()));
        };
        points = points.with(point);
    }
    Ok(points)
}

fn check_patterns(field: &str, patterns: &[String]) -> Result<(), RpcError> {
    if patterns.len() > MAX_PATTERNS {
        let error = RpcError::invalid(field, format!("has {} patterns", patterns.len()));
        return Err(error.allowed(format!("at most {MAX_PATTERNS}")));
    }
    for pattern in patterns {
        check_text(field, pattern, MAX_PATTERN)?;
        if pattern.is_empty() || NamePattern::new(pattern).is_err() {
            let error = RpcError::invalid(field, format!("has {pattern:?}"));
            return Err(error.allowed("names, and patterns such as \"review*\""));
        }
    }
    Ok(())
}

/// The address as it is called: two texts of one address give one digest.
fn url(field: &str, url: &str) -> Result<String, RpcError> {
    if url.is_empty() {
        return Err(RpcError::missing(field).allowed(URL_RULE));
    }
    check_text(field, url, MAX_URL)?;
    let is_http = url.starts_with("http://") || url.starts_with("https://");
    match url.parse::<HostUrl>() {
        Ok(url) if is_http => Ok(url.to_string()),
        _ => {
            let error = RpcError::invalid(field, "is no address of a service");
            Err(error.allowed(URL_RULE))
        }
    }
}

fn timeout(field: &str, asked: &pb::HookDefinition) -> Result<Duration, RpcError> {
    let Some(asked) = asked.timeout else {
        return Ok(DEFAULT_TIMEOUT);
    };
    // Of the smallest number neither the conversion nor the display may be asked: both negate it.
    let is_negative = asked.seconds < 0 || asked.nanos < 0;
    let read = (!is_negative)
        .then(|| Duration::try_from(asked).ok())
        .flatten();
    let allowed = SHORTEST_TIMEOUT..=LONGEST_TIMEOUT;
    read.filter(|it| allowed.contains(it)).ok_or_else(|| {
        let problem = format!("is {} s and {} ns", asked.seconds, asked.nanos);
        let error = RpcError::invalid(field, problem);
        error.allowed(format!("{SHORTEST_TIMEOUT:?} to {LONGEST_TIMEOUT:?}"))
    })
}

fn on_error(field: &str, asked: i32) -> Result<Option<OnError>, RpcError> {
    match pb::HookOnError::try_from(asked) {
        Ok(pb::HookOnError::Unspecified) => Ok(None),
        Ok(pb::HookOnError::Block) => Ok(Some(OnError::Block)),
        Ok(pb::HookOnError::Proceed) => Ok(Some(OnError::Proceed)),
        Err(_) => {
            let error = RpcError::invalid(field, format!("is {asked}"));
            Err(error.allowed("HOOK_ON_ERROR_BLOCK, HOOK_ON_ERROR_PROCEED, or nothing"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> pb::HookDefinition {
        pb::HookDefinition {
            name: "guard".to_owned(),
            points: vec![Point::PreToolCall as i32, Point::OnError as i32],
            agents: Some(pb::HookPatterns {
                patterns: vec!["review*".to_owned()],
            }),
            tools: vec!["shell_exec".to_owned()],
            url: "https://hooks.example.org:8443".to_owned(),
            timeout: Some(duration(1_500)),
            on_error: pb::HookOnError::Proceed.into(),
        }
    }

    #[test]
    fn a_definition_is_the_same_after_its_way_there_and_back() {
        let definition = read("", &asked()).unwrap();
        assert_eq!(message(&definition), asked());
        let plain = pb::HookDefinition {
            agents: None,
            tools: Vec::new(),
            timeout: None,
            on_error: 0,
            ..asked()
        };
        let definition = read("", &plain).unwrap();
        let expected = pb::HookDefinition {
            timeout: Some(duration(5_000)),
            ..plain
        };
        assert_eq!(message(&definition), expected);
    }

    #[test]
    fn texts_of_one_address_are_one_address() {
        let digest = |url: &str| {
            let asked = pb::HookDefinition {
                url: url.to_owned(),
                ..asked()
            };
            read("", &asked).unwrap().digest()
        };
        assert_eq!(digest("https://h"), digest("https://h:443/"));
        assert_ne!(digest("https://h"), digest("http://h:443"));
    }

    #[test]
    fn each_wrong_field_is_named() {
        type Change = fn(&mut pb::HookDefinition);
        let changes: [(&str, Change); 13] = [
            ("hook.name", |it| it.name.clear()),
            ("hook.name", |it| it.name = "a b".to_owned()),
            ("hook.points", |it| it.points.clear()),
            ("hook.points", |it| it.points.push(15)),
            ("hook.points", |it| it.points.push(0)),
            ("hook.agents", |it| {
                it.agents = Some(pb::HookPatterns {
                    patterns: vec![String::new()],
                });
            }),
            ("hook.tools", |it| it.tools = vec!["t".to_owned(); 101]),
            ("hook.tools", |it| it.points = vec![Point::OnError as i32]),
            ("hook.url", |it| it.url.clear()),
            ("hook.url", |it| it.url = "unix:/run/hook.sock".to_owned()),
            ("hook.url", |it| it.url = "https://u@h:1".to_owned()),
            ("hook.timeout", |it| it.timeout = Some(duration(99))),
            ("hook.on_error", |it| it.on_error = 3),
        ];
        for (field, change) in changes {
            let mut wrong = asked();
            change(&mut wrong);
            let error = read("hook.", &wrong).unwrap_err();
            assert_eq!(error.violations()[0].field, field, "{error}");
        }
    }
}
