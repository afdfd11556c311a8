//! Approvals of a call and of further ones like it.

use super::bad_settlement;
use crate::decide::{Decision, Rejection, ToolFacts, ToolList, judged_scope};
use crate::event::{ApprovalGranted, CallRef};
use crate::limits::MAX_GRANTS;
use crate::pending::pending_call;
use crate::rules::{
    Condition, Conditions, Matcher, MatcherKind, Scope, exactly,
};
use crate::session::{Call, Session};
use std::collections::BTreeMap;

/// What an approval of this call and of further ones by the same agent covers. It must cover this one.
pub(super) fn granted(
    decision: &Decision<'_>,
    name: CallRef,
    call: &Call,
    when: &[Condition],
) -> Result<ApprovalGranted, Rejection> {
    let session = &decision.session;
    if session.grants.len() >= MAX_GRANTS {
        let message = format!("a session has at most {MAX_GRANTS} approvals in force; revoke some");
        return Err(bad_settlement(message));
    }
    // Without its tool, the values that set this call apart are not known.
    let Some(tool) = decision.facts.tools.get(&call.call.name) else {
        let name = &call.call.name;
        let message = format!(
            "tool '{name}' is out of reach, so what further calls have in common is not known; approve this one once"
        );
        return Err(bad_settlement(message));
    };
    let scope = judged_scope(call, tool);
    let when = match when.is_empty() {
        true => of_call(&scope, tool).map_err(|name| {
            bad_settlement(format!(
                "'{name}' of this call is not clear, so further calls cannot be compared with it; approve it once"
            ))
        })?,
        false => without_others(when, &scope, tool),
    };
    let when = Conditions::from(when);
    if !when.covers(&scope) {
        let names: Vec<_> = scope.names().collect();
        return Err(bad_settlement(format!(
            "the patterns do not match this call; its values are: {}",
            names.join(", ")
        )));
    }
    Ok(ApprovalGranted {
        grant: session.grants_given + 1,
        tool: call.call.name.clone(),
        tool_digest: call.tool_digest.clone(),
        when: when.into(),
        agent: session.agent_name(name.attempt.run).to_owned(),
    })
}

/// The declared arguments that rules and approvals look at.
fn matchers(tool: &ToolFacts) -> impl Iterator<Item = &Matcher> {
    let matchers = tool.matchers.iter();
    matchers.filter(|matcher| matcher.kind != MatcherKind::Free && !matcher.is_of_undeclared())
}

/// The conditions that only calls with these values meet.
///
/// # Errors
/// The name of a value that is not clear.
fn of_call(scope: &Scope, tool: &ToolFacts) -> Result<Vec<Condition>, String> {
    let declared = matchers(tool).map(|it| (it.name.as_str(), it.argument.as_str()));
    let given = scope.names().map(|name| (name, name));
    // What a tool does not declare is named by the call alone.
    let is_undeclared = tool.matchers.iter().all(Matcher::is_of_undeclared);
    let given = given.filter(|_| is_undeclared);
    let mut patterns: BTreeMap<&str, String> = BTreeMap::new();
    for (shown, argument) in declared.chain(given) {
        let (name, pattern) = match scope.value(argument) {
            // An address is meant by its host.
            Some(Ok(value)) => (shown, exactly(value)),
            Some(Err(())) => return Err(argument.to_owned()),
            // Other calls leave it out, too.
            None => (argument, String::new()),
        };
        let known = patterns.insert(name, pattern.clone());
        if known.is_some_and(|known| known != pattern) {
            return Err(name.to_owned());
        }
    }
    let condition = |(name, pattern): (&str, String)| Condition {
        name: name.to_owned(),
        pattern,
    };
    Ok(patterns.into_iter().map(condition).collect())
}

/// Conditions of a person, and that calls have no argument which this one leaves out and no condition
/// names.
fn without_others(when: &[Condition], scope: &Scope, tool: &ToolFacts) -> Vec<Condition> {
    let is_named = |matcher: &Matcher| when.iter().any(|it| it.name == matcher.argument);
    let others = matchers(tool)
        .filter(|matcher| scope.value(&matcher.argument).is_none() && !is_named(matcher));
    let others = others.map(|matcher| Condition {
        name: matcher.argument.clone(),
        pattern: String::new(),
    });
    when.iter().cloned().chain(others).collect()
}

/// The calls that an approval of a waiting call and of further ones would cover without patterns. None if
/// there is none such, or the tool is not known.
pub fn always_covers(session: &Session, name: CallRef, tools: &ToolList) -> Option<Vec<Condition>> {
    let call = pending_call(session, name)?;
    let tool = tools.get(&call.call.name)?;
    let scope = judged_scope(call, tool);
    let when = Conditions::from(of_call(&scope, tool).ok()?);
    when.covers(&scope).then(|| when.into())
}
