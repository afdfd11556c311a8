//! Tools, rules and approvals for clients. A tool is tried here outside of sessions.

use super::Answer;
use crate::dispatch::{answer, compiled, matcher};
use crate::requests::Requests;
use crate::store::for_namespace;
use cairn_engine::decide::UNKNOWN_TOOL;
use cairn_engine::key::{digest, hex};
use cairn_engine::rules::{Answer as Judged, DEFAULT_AGENT, Rules, Scope, scope};
use cairn_engine::session::{Grant, Session};
use cairn_proto::event::Condition;
use cairn_proto::orchestrator as pb;
use cairn_proto::tool_result;
use cairn_proto::tools::{
    AllowToolRequest, InvokeToolRequest, ListToolsRequest, ListToolsResponse, RuleAnswer,
    ToolResult, ToolSpec,
};
use cairn_rpc::{
    ErrorKind, Namespace, RpcError, check_request_id, check_required_text, check_text, principal,
};
use serde_json::{Map, Value};
use std::time::Duration;
use tonic::{Request, Response, Status};

/// Longest name that is looked up.
const MAX_NAME: usize = 128;
/// Largest arguments, in bytes.
const MAX_ARGUMENTS: usize = 256 * 1024;
/// Most bytes of the text of a result; the rest is cut, with a note.
const MAX_RESULT: usize = 256 * 1024;
/// How long a call may wait to begin.
const BEGINS_WITHIN: Duration = Duration::from_secs(30);

pub(super) async fn list(
    requests: &Requests,
    request: Request<pb::ListToolsRequest>,
) -> Answer<pb::ListToolsResponse> {
    let listed = listed(requests, principal(&request)?.namespace()).await?;
    let rules = compiled(listed.rules.clone())?;
    let answer_to_all = |tool: &ToolSpec| {
        let default = answer(tool.default_answer());
        match () {
            () if rules.always_deny(&tool.name, DEFAULT_AGENT) => RuleAnswer::Deny,
            () if rules.always_allow(&tool.name, DEFAULT_AGENT, default) => RuleAnswer::Allow,
            () if rules.always_ask(&tool.name, DEFAULT_AGENT, default) => RuleAnswer::Ask,
            () => RuleAnswer::Unspecified,
        }
    };
    let answers = listed.tools.iter().map(answer_to_all);
    Ok(Response::new(pb::ListToolsResponse {
        answers: answers.map(Into::into).collect(),
        tools: listed.tools,
        sources: listed.sources,
        offered: listed.offered,
    }))
}

pub(super) async fn rules(
    requests: &Requests,
    request: Request<pb::ListRulesRequest>,
) -> Answer<pb::ListRulesResponse> {
    let listed = listed(requests, principal(&request)?.namespace()).await?;
    Ok(Response::new(pb::ListRulesResponse {
        rules: listed.rules,
    }))
}

async fn listed(requests: &Requests, namespace: &Namespace) -> Result<ListToolsResponse, Status> {
    let mut tools = requests.deps().dispatch.tools();
    let request = for_namespace(namespace, ListToolsRequest::default());
    Ok(tools.list_tools(request).await?.into_inner())
}

pub(super) async fn allow(
    requests: &Requests,
    request: Request<pb::AllowToolRequest>,
) -> Answer<pb::AllowToolResponse> {
    let namespace = principal(&request)?.namespace().clone();
    let pb::AllowToolRequest { name, digest } = request.into_inner();
    check_required_text("name", &name, MAX_NAME)?;
    let allow = AllowToolRequest { name, digest };
    let mut tools = requests.deps().dispatch.tools();
    let allowed = tools.allow_tool(for_namespace(&namespace, allow)).await?;
    requests.deps().dispatch.read_again().await;
    Ok(Response::new(pb::AllowToolResponse {
        digest: allowed.into_inner().digest,
    }))
}

pub(super) async fn call(
    requests: &Requests,
    request: Request<pb::CallToolRequest>,
) -> Answer<pb::CallToolResponse> {
    let namespace = principal(&request)?.namespace().clone();
    let asked = request.into_inner();
    check_required_text("name", &asked.name, MAX_NAME)?;
    check_request_id("request_id", &asked.request_id)?;
    check_arguments(&asked.arguments_json)?;
    let key = [namespace.as_str(), "cairn.tools.call", &asked.request_id];
    let begins_within = u64::try_from(BEGINS_WITHIN.as_millis()).unwrap_or(0);
    let not_after = requests.store().clock.now().saturating_add(begins_within);
    let mut call = InvokeToolRequest {
        name: asked.name.clone(),
        arguments_json: asked.arguments_json.clone(),
        call_key: hex(&digest(&key.map(str::as_bytes))),
        not_after_unix_ms: i64::try_from(not_after).unwrap_or(i64::MAX),
        ..InvokeToolRequest::default()
    };
    let mut result = judged_call(requests, &namespace, &asked, &mut call).await?;
    if let Some(unsent) = result.unsent.take() {
        // Nothing was done: a link leads elsewhere, or the tool is another one.
        call.resolved = unsent.resolved;
        result = judged_call(requests, &namespace, &asked, &mut call).await?;
    }
    if result.question.is_some() {
        let message = "the tool asks a person, which it can do within a session only";
        return Err(RpcError::precondition(message).reason("QUESTION").into());
    }
    Ok(Response::new(pb::CallToolResponse {
        result: Some(result),
    }))
}

/// Sends the call if the rules let it, as the tools are now.
async fn judged_call(
    requests: &Requests,
    namespace: &Namespace,
    asked: &pb::CallToolRequest,
    call: &mut InvokeToolRequest,
) -> Result<ToolResult, Status> {
    let listed = listed(requests, namespace).await?;
    let rules = compiled(listed.rules)?;
    let tool = listed.tools.iter().find(|tool| tool.name == call.name);
    match tool {
        Some(tool) => check(&rules, tool, asked, &call.resolved)?,
        // A tool of which every call is denied is not on the list.
        None => {
            let none = Scope::default();
            let verdict = rules.judge(&call.name, &none, DEFAULT_AGENT, Judged::Allow);
            verdict.denial(&call.name).map_or(Ok(()), denied)?;
        }
    }
    // A tool that comes in this moment has not been judged; no tool has this digest.
    call.tool_digest = tool.map_or_else(|| UNKNOWN_TOOL.to_owned(), |tool| tool.digest.clone());
    let mut tools = requests.deps().dispatch.tools();
    let messages = tools.invoke_tool(for_namespace(namespace, call.clone()));
    tool_result(messages.await?.into_inner(), MAX_RESULT, drop).await
}

/// Whether they fit the tool is for the tools service to say.
fn check_arguments(arguments: &str) -> Result<(), RpcError> {
    check_text("arguments_json", arguments, MAX_ARGUMENTS)?;
    let given = Some(arguments).filter(|it| !it.trim().is_empty());
    let is_object = |text: &str| serde_json::from_str::<Map<String, Value>>(text).is_ok();
    match given.is_none_or(is_object) {
        true => Ok(()),
        false => Err(RpcError::invalid("arguments_json", "is no JSON object")
            .allowed("an object, or nothing for an empty one")),
    }
}

/// What the rules say of this call. The caller's approval answers what asks.
fn check(
    rules: &Rules,
    tool: &ToolSpec,
    asked: &pb::CallToolRequest,
    resolved: &[Condition],
) -> Result<(), RpcError> {
    let matchers: Vec<_> = tool.matchers.iter().map(matcher).collect();
    let resolved: Vec<_> = resolved.iter().cloned().map(Into::into).collect();
    let scope = scope(&matchers, &asked.arguments_json, &resolved);
    let default = answer(tool.default_answer());
    let verdict = rules.judge(&tool.name, &scope, DEFAULT_AGENT, default);
    verdict.denial(&tool.name).map_or(Ok(()), denied)?;
    match verdict.answer {
        Judged::Ask if !asked.approved => {
            let message = format!("a call of '{}' needs approval; set approved", tool.name);
            Err(RpcError::precondition(message).reason("APPROVAL_NEEDED"))
        }
        Judged::Ask | Judged::Allow | Judged::Deny => Ok(()),
    }
}

fn denied(denial: String) -> Result<(), RpcError> {
    Err(RpcError::new(ErrorKind::PermissionDenied, denial).reason("DENIED"))
}

pub(super) fn approvals(session: &Session) -> pb::ListApprovalsResponse {
    let approval = |grant: &Grant| pb::Approval {
        grant: grant.number,
        tool: grant.tool.clone(),
        tool_digest: grant.tool_digest.clone(),
        when: grant
            .when
            .written()
            .iter()
            .cloned()
            .map(Into::into)
            .collect(),
        agent: grant.agent.clone(),
        at_unix_ms: i64::try_from(grant.at).unwrap_or(i64::MAX),
        principal: grant.principal.clone().map(Into::into),
        scope: grant.scope.clone().map(Into::into),
    };
    pb::ListApprovalsResponse {
        approvals: session.grants.iter().map(approval).collect(),
    }
}
