//! Approvals of a call and of further ones like it.

use super::bad_settlement;
use crate::decide::{Decision, Rejection, ToolFacts, ToolList, judged_values};
use crate::event::{ApprovalGranted, CallRef};
use crate::limits::MAX_GRANTS;
use crate::pending::pending_call;
use crate::rules::{Condition, DEFAULT_AGENT, Value, Values, exactly};
use crate::session::{Call, Grant, Session};
use std::collections::BTreeSet;

/// What an approval of this call and of further ones covers. It must cover this one.
pub(super) fn granted(
    decision: &Decision<'_>,
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
    let values = judged_values(call, tool);
    let when = match when.is_empty() {
        true => of_call(&values, tool).map_err(|name| {
            bad_settlement(format!(
                "'{name}' of this call is not clear, so further calls cannot be compared with it; approve it once"
            ))
        })?,
        false => when.to_vec(),
    };
    let grant = Grant {
        number: session.grants_given + 1,
        tool: call.call.name.clone(),
        tool_digest: call.tool_digest.clone(),
        when,
        agent: DEFAULT_AGENT.to_owned(),
        at: 0,
        principal: None,
    };
    if !grant.covers(&grant.tool, &grant.tool_digest, &grant.agent, &values) {
        let names: Vec<_> = values.keys().map(String::as_str).collect();
        return Err(bad_settlement(format!(
            "the patterns do not match this call; its values are: {}",
            names.join(", ")
        )));
    }
    Ok(ApprovalGranted {
        grant: grant.number,
        tool: grant.tool,
        tool_digest: grant.tool_digest,
        when: grant.when,
        agent: grant.agent,
    })
}

/// The conditions that only calls with these values meet.
///
/// # Errors
/// The name of a value that is not clear.
fn of_call(values: &Values, tool: &ToolFacts) -> Result<Vec<Condition>, String> {
    let declared = tool.matchers.iter().map(|it| &it.name);
    let names: BTreeSet<&String> = declared.chain(values.keys()).collect();
    let condition = |name: &String| match values.get(name) {
        Some(Value::Known(value)) => Ok(Condition {
            name: name.clone(),
            pattern: exactly(value),
        }),
        Some(Value::Unclear) => Err(name.clone()),
        // Other calls leave it out, too.
        None => Ok(Condition {
            name: name.clone(),
            pattern: String::new(),
        }),
    };
    names.into_iter().map(condition).collect()
}

/// The calls that an approval of a waiting call and of further ones would cover without patterns. None if
/// there is none such, or the tool is not known.
pub fn always_covers(session: &Session, name: CallRef, tools: &ToolList) -> Option<Vec<Condition>> {
    let call = pending_call(session, name)?;
    let tool = tools.get(&call.call.name)?;
    of_call(&judged_values(call, tool), tool).ok()
}
