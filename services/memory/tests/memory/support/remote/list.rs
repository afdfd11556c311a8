//! Listings.

use crate::support::wire::{in_namespace, level, pending, quarantine, refused, status};
use cairn_memory::port::*;
use cairn_proto::memory as pb;
use cairn_proto::memory::journal_service_client::JournalServiceClient;
use cairn_rpc::Link;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

/// How pages' tokens of each filter and order begin.
static MARKS: LazyLock<Mutex<HashMap<String, String>>> = LazyLock::new(Mutex::default);

/// The first part of a page's token names the filter and the order.
fn token(text: &str) -> PageToken {
    let mut parts = text.splitn(3, '.').skip(1);
    let number = parts.next().unwrap().parse().unwrap();
    let session = parts.next().unwrap().to_owned();
    PageToken { number, session }
}

pub(super) async fn list(
    mut journal: JournalServiceClient<Link>,
    namespace: &str,
    query: &ListQuery,
) -> StoreResult<SessionPage> {
    let mut message = request(query);
    let kind = format!("{:?}", (&query.filter, query.order, query.is_ascending));
    if let Some(PageToken { number, session }) = &query.from {
        let marks = MARKS.lock().unwrap();
        message.page_token = format!("{}.{number}.{session}", marks[&kind]);
    }
    let answer = journal
        .list_sessions(in_namespace(namespace, message))
        .await;
    let answer = answer.map_err(refused)?.into_inner();
    let next = Some(answer.next_page_token).filter(|text| !text.is_empty());
    if let Some(text) = &next {
        let mark = text.split('.').next().unwrap().to_owned();
        MARKS.lock().unwrap().insert(kind, mark);
    }
    Ok(SessionPage {
        sessions: answer.sessions.into_iter().map(entry).collect(),
        next: next.map(|text| token(&text)),
    })
}

fn request(query: &ListQuery) -> pb::ListSessionsRequest {
    let filter = &query.filter;
    let statuses = filter.statuses.iter().map(|status| match status {
        SessionStatus::Idle => pb::SessionStatus::Idle,
        SessionStatus::Running => pb::SessionStatus::Running,
        SessionStatus::Waiting => pb::SessionStatus::Waiting,
        SessionStatus::Paused => pb::SessionStatus::Paused,
    });
    let order = match query.order {
        ListOrder::Created => pb::SessionOrder::Created,
        ListOrder::Changed => pb::SessionOrder::Changed,
    };
    pb::ListSessionsRequest {
        page_size: u32::try_from(query.max).unwrap(),
        page_token: String::new(),
        filter: Some(pb::SessionFilter {
            statuses: statuses.map(Into::into).collect(),
            quarantined: filter.quarantined,
            pending: filter.pending.iter().copied().map(Into::into).collect(),
            has_pending: filter.has_pending,
            agent: filter.agent.clone(),
            prefix: filter.prefix.clone(),
            changed_after_unix_ms: filter.changed_after.unwrap_or(0),
            changed_before_unix_ms: filter.changed_before.unwrap_or(0),
        }),
        order: order.into(),
        ascending: query.is_ascending,
    }
}

fn entry(entry: pb::SessionEntry) -> SessionEntry {
    SessionEntry {
        session: entry.session,
        status: status(entry.status),
        title: entry.title,
        agent: entry.agent,
        tokens: entry.tokens,
        cost_nano_usd: entry.cost_nano_usd,
        pending: pending(entry.pending),
        needs: level(entry.needs),
        created_unix_ms: entry.created_unix_ms,
        updated_unix_ms: entry.updated_unix_ms,
        last_seq: entry.last_seq,
        quarantined: quarantine(entry.quarantined, entry.quarantine_reason),
    }
}
