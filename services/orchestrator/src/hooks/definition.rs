//! What clients choose of a hook, on its way to them and from them.

use cairn_engine::hooks::{Point, Points};
use cairn_hooks::{
    DEFAULT_TIMEOUT, Definition, Fault, FaultKind, HostUrl, Means, OnError, Policy, fault_of_name,
    point_names, timeouts,
};
use cairn_proto::api as pb;
use cairn_proto::time::duration;
use cairn_rpc::RpcError;
use std::time::Duration;

const URL_RULE: &str = "http://host:port or https://host:port, without user and path";

/// Reads the definition of a stored hook. `field` stands before the names of its fields in errors, such as `hook.`.
///
/// # Errors
/// InvalidArgument that names a field that is wrong.
pub(crate) fn read(field: &str, asked: &pb::HookDefinition) -> Result<Definition, RpcError> {
    let at = |name: &str| format!("{field}{name}");
    let definition = Definition {
        name: asked.name.clone(),
        points: points(&at("points"), &asked.points)?,
        agents: asked.agents.as_ref().map(|it| it.patterns.clone()),
        tools: asked.tools.clone(),
        means: Means::Host(url(&at("url"), &asked.url)?),
        policy: Policy {
            timeout: timeout(&at("timeout"), asked)?,
            on_error: on_error(&at("on_error"), asked.on_error)?,
        },
    };
    match definition.faults().first() {
        None => Ok(definition),
        Some(fault) => Err(error_of(&at(fault.field), fault)),
    }
}

fn error_of(field: &str, fault: &Fault) -> RpcError {
    let error = RpcError::invalid(field, &fault.problem).allowed(&fault.allowed);
    match fault.kind {
        FaultKind::Missing => error.reason("FIELD_MISSING"),
        FaultKind::Name => error.reason("ID_INVALID"),
        FaultKind::TooLong => error.reason("TEXT_TOO_LONG"),
        FaultKind::Value => error,
    }
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
    fault_of_name(name).map_or(Ok(()), |fault| Err(error_of(field, &fault)))
}

fn points(field: &str, asked: &[i32]) -> Result<Points, RpcError> {
    let read = asked.iter().map(|number| {
        let mut known = Point::ALL.iter().copied();
        known.find(|point| *point as i32 == *number).ok_or_else(|| {
            let error = RpcError::invalid(field, format!("has the unknown point {number}"));
            error.allowed(point_names())
        })
    });
    read.collect()
}

/// The address as it is called: two texts of one address give one digest.
fn url(field: &str, url: &str) -> Result<String, RpcError> {
    if url.is_empty() {
        return Err(RpcError::missing(field).allowed(URL_RULE));
    }
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
    read.ok_or_else(|| {
        let problem = format!("is {} s and {} ns", asked.seconds, asked.nanos);
        RpcError::invalid(field, problem).allowed(timeouts())
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
