//! Approvals of a call and of further ones like it.

use super::bad_settlement;
use crate::decide::{Decision, Rejection, ToolFacts, ToolList, asks_each_time, judged_scope};
use crate::event::{ApprovalGranted, CallRef};
use crate::limits::MAX_GRANTS;
use crate::pending::pending_call;
use crate::rules::{
    ApprovalScope, Condition, Conditions, GrantScope, Matcher, MatcherKind, Scope, ScopeId,
    exactly, scopes,
};
use crate::session::{Call, Session};
use std::collections::BTreeMap;

/// What an approval of this call and of further ones by the same agent covers. It must cover this one. None if it
/// is for this call alone. `named` is the name of a scope; without one, `when` says what is covered.
pub(super) fn granted(
    decision: &Decision<'_>,
    name: CallRef,
    call: &Call,
    when: &[Condition],
    named: &str,
) -> Result<Option<ApprovalGranted>, Rejection> {
    let session = &decision.session;
    if named == ScopeId::Call.to_string() {
        return Ok(None);
    }
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
    let (when, scope) = match named {
        "" => (conditions(call, tool, when)?, None),
        named if when.is_empty() => (Vec::new(), Some(chosen(call, tool, named)?)),
        _ => {
            let message = "an approval has a scope or patterns, and not both";
            return Err(bad_settlement(message));
        }
    };
    Ok(Some(ApprovalGranted {
        grant: session.grants_given + 1,
        tool: call.call.name.clone(),
        tool_digest: call.tool_digest.clone(),
        when,
        agent: session.agent_name(name.attempt.run).to_owned(),
        scope,
    }))
}

/// The conditions of an approval without a scope.
fn conditions(
    call: &Call,
    tool: &ToolFacts,
    when: &[Condition],
) -> Result<Vec<Condition>, Rejection> {
    let scope = judged_scope(call, tool);
    if asks_each_time(call, tool, &scope) {
        return Err(bad_settlement(
            "a hook requires the approval, or the call writes a protected file or runs a command that nothing \
             confines; a person approves each such call, so approve it once",
        ));
    }
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
    Ok(when.into())
}

/// The scope of this name that the call has.
fn chosen(call: &Call, tool: &ToolFacts, named: &str) -> Result<GrantScope, Rejection> {
    let offered = scopes_of(call, tool);
    let names: Vec<_> = offered.iter().map(|it| it.id.to_string()).collect();
    let id = ScopeId::parse(named);
    let chosen = offered.into_iter().find(|it| id.as_ref() == Some(&it.id));
    chosen.and_then(|it| it.scope).ok_or_else(|| {
        bad_settlement(format!(
            "'{named}' is no scope of this call; it has: {}",
            names.join(", ")
        ))
    })
}

/// The ways to approve a call. Of a tool that is another one by now, only the call itself was shown; and some
/// calls are asked about each time.
fn scopes_of(call: &Call, tool: &ToolFacts) -> Vec<ApprovalScope> {
    let scope = judged_scope(call, tool);
    let is_alone = call.tool_digest != tool.digest || asks_each_time(call, tool, &scope);
    scopes(&call.call.name, tool, &scope, call.arguments(), is_alone)
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
    if asks_each_time(call, tool, &scope) {
        return None;
    }
    let when = Conditions::from(of_call(&scope, tool).ok()?);
    when.covers(&scope).then(|| when.into())
}

/// The ways to approve a waiting call. Empty if there is no such call, or its tool is not known.
pub fn approval_scopes(session: &Session, name: CallRef, tools: &ToolList) -> Vec<ApprovalScope> {
    let call = pending_call(session, name);
    let known = call.and_then(|call| Some((call, tools.get(&call.call.name)?)));
    known.map_or_else(Vec::new, |(call, tool)| scopes_of(call, tool))
}
