//! `cairn tools approvals`, `revoke` and `rules`.

use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::live::terminal_width;
use crate::ui::{out, tools};
use cairn_proto::orchestrator::{ListApprovalsRequest, ListRulesRequest, RevokeApprovalRequest};
use serde_json::json;

pub(super) async fn list(
    session: Option<String>,
    client: &mut Client<'_>,
    context: &Context,
) -> Result<(), CliError> {
    let session = client.resolve(session.as_deref()).await?;
    let request = ListApprovalsRequest {
        session: session.clone(),
    };
    let answer = client.orchestrator().list_approvals(request).await?;
    let approvals = answer.into_inner().approvals;
    if context.json {
        let mut lines = approvals
            .iter()
            .map(|it| tools::approval_json(&session, it));
        return lines.try_for_each(|line| out::json(&line));
    }
    if approvals.is_empty() {
        return out::line(&format!(
            "no approval of further calls is in force in {session}"
        ));
    }
    let mut lines = tools::approvals(&approvals, terminal_width()).into_iter();
    lines.try_for_each(|line| out::line(&line))
}

pub(super) async fn revoke(
    session: &str,
    number: u32,
    client: &mut Client<'_>,
    context: &Context,
) -> Result<(), CliError> {
    let session = client.resolve(Some(session)).await?;
    let request = RevokeApprovalRequest {
        session: session.clone(),
        grant: number,
        request_id: uuid::Uuid::now_v7().simple().to_string(),
    };
    let revoked = client.persist(|mut orchestrator| {
        let request = request.clone();
        async move { orchestrator.revoke_approval(request).await }
    });
    revoked.await?;
    match context.json {
        true => out::json(&json!({"session": session, "number": number})),
        false => out::line(&format!("revoked approval {number} of {session}")),
    }
}

pub(super) async fn rules(client: &mut Client<'_>, context: &Context) -> Result<(), CliError> {
    let listed = client.persist(|mut orchestrator| async move {
        orchestrator.list_rules(ListRulesRequest {}).await
    });
    let rules = listed.await?.rules;
    if context.json {
        let mut lines = rules.iter().map(tools::rule_json);
        return lines.try_for_each(|line| out::json(&line));
    }
    if rules.is_empty() {
        return out::line("there are no rules; each tool's own default holds, see: cairn tools");
    }
    let mut lines = rules.iter().map(tools::rule_line);
    lines.try_for_each(|line| out::line(&line))
}
