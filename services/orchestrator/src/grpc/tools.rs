//! Tools, rules and approvals for clients. A tool is tried here outside of sessions.

use super::Answer;
use crate::dispatch::{answer, matcher};
use crate::requests::Requests;
use crate::store::for_namespace;
use cairn_engine::key::{digest, hex};
use cairn_engine::rules::{Answer as Judged, DEFAULT_AGENT, Rule, Verdict, values};
use cairn_engine::session::{Grant, Session};
use cairn_proto::orchestrator as pb;
use cairn_proto::tool_result;
use cairn_proto::tools::{
    AllowToolRequest, InvokeToolRequest, ListToolsRequest, ListToolsResponse, RuleAnswer, ToolSpec,
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
/// How long a call may wait to begin.
const BEGINS_WITHIN: Duration = Duration::from_secs(30);

pub(super) async fn list(
    requests: &Requests,
    request: Request<pb::ListToolsRequest>,
) -> Answer<pb::ListToolsResponse> {
    let listed = listed(requests, principal(&request)?.namespace()).await?;
    let rules = requests.deps().dispatch.catalogue().rules.clone();
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
    let listed = listed(requests, &namespace).await?;
    let tool = listed.tools.iter().find(|tool| tool.name == asked.name);
    if let Some(tool) = tool {
        check(requests, tool, &asked)?;
    }
    let key = [namespace.as_str(), "cairn.tools.call", &asked.request_id];
    let begins_within = u64::try_from(BEGINS_WITHIN.as_millis()).unwrap_or(0);
    let not_after = requests.store().clock.now().saturating_add(begins_within);
    let call = InvokeToolRequest {
        // A tool that comes in this moment has not been judged; no tool has this digest.
        tool_digest: tool.map_or_else(|| "unknown".to_owned(), |tool| tool.digest.clone()),
        name: asked.name,
        arguments_json: asked.arguments_json,
        call_key: hex(&digest(&key.map(str::as_bytes))),
        not_after_unix_ms: i64::try_from(not_after).unwrap_or(i64::MAX),
        ..InvokeToolRequest::default()
    };
    let mut tools = requests.deps().dispatch.tools();
    let messages = tools.invoke_tool(for_namespace(&namespace, call)).await?;
    let result = tool_result(messages.into_inner(), drop).await?;
    if result.question.is_some() {
        let message = "the tool asks a person, which it can do within a session only";
        return Err(RpcError::precondition(message).reason("QUESTION").into());
    }
    Ok(Response::new(pb::CallToolResponse {
        result: Some(result),
    }))
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

/// What the rules say of this call. The caller's word answers what asks.
fn check(
    requests: &Requests,
    tool: &ToolSpec,
    asked: &pb::CallToolRequest,
) -> Result<(), RpcError> {
    let matchers: Vec<_> = tool.matchers.iter().map(matcher).collect();
    let values = values(&matchers, &asked.arguments_json);
    let rules = requests.deps().dispatch.catalogue().rules.clone();
    let default = answer(tool.default_answer());
    let Verdict { answer, rule } = rules.judge(&tool.name, &values, DEFAULT_AGENT, default);
    match answer {
        Judged::Deny => {
            let rule = rule.map(Rule::to_line).unwrap_or_default();
            let message = format!("a rule denies this call of '{}': {rule}", tool.name);
            Err(RpcError::new(ErrorKind::PermissionDenied, message).reason("DENIED"))
        }
        Judged::Ask if !asked.approved => {
            let message = format!("a call of '{}' needs approval; set approved", tool.name);
            Err(RpcError::precondition(message).reason("APPROVAL_NEEDED"))
        }
        Judged::Ask | Judged::Allow => Ok(()),
    }
}

pub(super) fn approvals(session: &Session) -> pb::ListApprovalsResponse {
    let approval = |grant: &Grant| pb::Approval {
        grant: grant.number,
        tool: grant.tool.clone(),
        tool_digest: grant.tool_digest.clone(),
        when: grant.when.iter().cloned().map(Into::into).collect(),
        agent: grant.agent.clone(),
        at_unix_ms: i64::try_from(grant.at).unwrap_or(i64::MAX),
        principal: grant.principal.clone().map(Into::into),
    };
    pb::ListApprovalsResponse {
        approvals: session.grants.iter().map(approval).collect(),
    }
}
