//! Views of a journal, folded when they are asked for.

use super::present::{ms, no_such_run, plan_message, run_message, run_of};
use super::{Answer, answers, key_of};
use crate::key::SessionKey;
use crate::requests::Requests;
use cairn_engine::event::{Event, EventKind};
use cairn_engine::prompt::progress;
use cairn_engine::session::{Session, StepNo};
use cairn_proto::orchestrator as pb;
use cairn_rpc::RpcError;
use cairn_views::placements::{Placement, Placements};
use cairn_views::tree::{Node, NodeKind, NodeStatus, Tree};
use cairn_views::{agent_state, dump, history, report as report_view};
use std::sync::Arc;
use tonic::{Request, Response};

pub(super) async fn state(
    requests: &Requests,
    request: Request<pb::GetStateRequest>,
) -> Answer<pb::GetStateResponse> {
    let key = key_of(&request, &request.get_ref().session)?;
    let session = session_at(requests, &key, request.get_ref().at_seq).await?;
    let mut state = agent_state::of_session(&session);
    if let Some(run) = session.runs.last() {
        let mut run = run_message(run.summary());
        answers::add(requests, &key, &mut run).await?;
        if run.status() == pb::RunStatus::Completed {
            state["answer"] = run.answer.into();
        }
    }
    Ok(Response::new(pb::GetStateResponse {
        json: state.to_string(),
        seq: session.seq,
    }))
}

/// The session as it was after an event; 0 for now.
pub(super) async fn session_at(
    requests: &Requests,
    key: &SessionKey,
    at_seq: u64,
) -> Result<Arc<Session>, RpcError> {
    let session = match at_seq {
        0 => requests.store().view(key).await?.session,
        seq => Arc::new(requests.store().view_at(key, seq).await?),
    };
    match at_seq > session.seq {
        true => Err(after_the_end(session.seq)),
        false => Ok(session),
    }
}

fn after_the_end(last: u64) -> RpcError {
    let allowed = format!("1 to {last}, or 0 for now");
    RpcError::invalid("at_seq", "is after the last event").allowed(allowed)
}

/// The events of a session up to one of them; 0 for all.
async fn events_until(
    requests: &Requests,
    key: &SessionKey,
    at_seq: u64,
) -> Result<Vec<(u64, Event)>, RpcError> {
    let mut events = requests.store().events(key).await?;
    let last = events.last().map_or(0, |(seq, _)| *seq);
    if at_seq > last {
        return Err(after_the_end(last));
    }
    if at_seq > 0 {
        events.retain(|(seq, _)| *seq <= at_seq);
    }
    Ok(events)
}

pub(super) async fn plan(
    requests: &Requests,
    request: Request<pb::GetPlanRequest>,
) -> Answer<pb::GetPlanResponse> {
    let key = key_of(&request, &request.get_ref().session)?;
    let asked = request.into_inner();
    let session = session_at(requests, &key, asked.at_seq).await?;
    let mut plan = plan_message(run_of(&session, asked.run)?);
    if asked.with_resources {
        let events = events_until(requests, &key, asked.at_seq).await?;
        let placements = Placements::of(events.iter().map(|(_, event)| event));
        for step in &mut plan.steps {
            let number = StepNo::new(step.number);
            if let Some(placement) = placements.get(plan.run, number) {
                add_placement(step, placement);
            }
        }
    }
    Ok(Response::new(plan))
}

fn add_placement(step: &mut pb::PlannedStep, placement: &Placement) {
    step.resources.clone_from(&placement.resources);
    step.waited_ms = placement.waited_ms;
    step.waited_for.clone_from(&placement.waited_for);
    if let Some(lack) = &placement.lacks {
        step.lacks.clone_from(&lack.what);
        step.lacks_since_unix_ms = ms(lack.since);
    }
}

pub(super) async fn tree(
    requests: &Requests,
    request: Request<pb::GetTreeRequest>,
) -> Answer<pb::GetTreeResponse> {
    let key = key_of(&request, &request.get_ref().session)?;
    let view = known_view(&request)?;
    let (number, at_seq) = (request.get_ref().run, request.get_ref().at_seq);
    if view == pb::TreeView::Todo {
        let session = session_at(requests, &key, at_seq).await?;
        let plan = run_of(&session, number)?.plan;
        let text = plan.map(progress::of_plan).unwrap_or_default();
        return Ok(Response::new(pb::GetTreeResponse {
            nodes: Vec::new(),
            text,
        }));
    }
    let mut tree = Tree::default();
    let events = events_until(requests, &key, at_seq).await?;
    events
        .iter()
        .for_each(|(seq, event)| tree.apply(*seq, event));
    let run = number_in(number, tree.runs().last().map(|run| run.number))?;
    let now = match events.last() {
        Some((_, last)) if at_seq > 0 => last.at,
        _ => requests.store().clock.now(),
    };
    let mut answer = pb::GetTreeResponse::default();
    match view {
        pb::TreeView::Text => answer.text = dump::text(&tree, run, now).unwrap_or_default(),
        pb::TreeView::Json => {
            let json = dump::json(&tree, run, now);
            answer.text = json.map(|json| json.to_string()).unwrap_or_default();
        }
        pb::TreeView::History => answer.text = history::of_run(&tree, run),
        _ => answer.nodes = nodes_of(&tree, run),
    }
    Ok(Response::new(answer))
}

fn known_view(request: &Request<pb::GetTreeRequest>) -> Result<pb::TreeView, RpcError> {
    pb::TreeView::try_from(request.get_ref().view).map_err(|_| {
        let problem = format!("is {}", request.get_ref().view);
        RpcError::invalid("view", problem).allowed("0 to 5, see TreeView")
    })
}

/// The number asked for, or the latest for 0.
fn number_in(asked: u32, latest: Option<u32>) -> Result<u32, RpcError> {
    let found = match asked {
        0 => latest,
        asked => Some(asked).filter(|asked| Some(*asked) <= latest),
    };
    found.ok_or_else(|| no_such_run(asked))
}

fn nodes_of(tree: &Tree, run: u32) -> Vec<pb::TreeNode> {
    let run = tree.run(run).into_iter();
    let nodes = run.flat_map(|run| {
        let walked = run.roots.iter().flat_map(|&root| tree.walk(root));
        walked.map(|(_, node)| node_message(tree, node, &run.trace_id))
    });
    nodes.collect()
}

fn node_message(tree: &Tree, node: &Node, trace: &str) -> pb::TreeNode {
    let kind = match node.kind {
        NodeKind::Goal => pb::NodeKind::Goal,
        NodeKind::Thought => pb::NodeKind::Thought,
        NodeKind::Action => pb::NodeKind::Action,
        NodeKind::Result => pb::NodeKind::Result,
        NodeKind::Evaluation => pb::NodeKind::Evaluation,
        NodeKind::Response => pb::NodeKind::Response,
    };
    let status = match node.status {
        NodeStatus::Planned => pb::NodeStatus::Planned,
        NodeStatus::InProgress => pb::NodeStatus::InProgress,
        NodeStatus::Completed => pb::NodeStatus::Completed,
        NodeStatus::Failed => pb::NodeStatus::Failed,
        NodeStatus::Skipped => pb::NodeStatus::Skipped,
    };
    let data = node
        .data
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone().into()));
    let parent = node.parent.and_then(|parent| tree.nodes().get(parent));
    pb::TreeNode {
        id: node.id.clone(),
        parent_id: parent.map(|parent| parent.id.clone()).unwrap_or_default(),
        kind: kind.into(),
        status: status.into(),
        sequence: node.sequence,
        description: node.description.clone(),
        summary: node.summary.clone().unwrap_or_default(),
        data_json: serde_json::Value::Object(data.collect()).to_string(),
        duration_ms: node.duration_ms.unwrap_or(0),
        tokens: node.tokens.unwrap_or(0),
        cost_nano_usd: node.cost_nano_usd.unwrap_or(0),
        created_unix_ms: ms(node.created_at),
        trace_id: trace.to_owned(),
    }
}

pub(super) async fn report(
    requests: &Requests,
    request: Request<pb::GetReportRequest>,
) -> Answer<pb::GetReportResponse> {
    let key = key_of(&request, &request.get_ref().session)?;
    let events = events_until(requests, &key, request.get_ref().at_seq).await?;
    let events = events.iter().map(|(_, event)| event);
    let newest = events.clone().rev().find_map(|event| match &event.kind {
        EventKind::RunStarted(started) => Some(started.run),
        _ => None,
    });
    let run = number_in(request.get_ref().run, newest)?;
    Ok(Response::new(pb::GetReportResponse {
        markdown: report_view::markdown(events, run).unwrap_or_default(),
    }))
}
