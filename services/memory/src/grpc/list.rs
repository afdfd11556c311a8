//! `JournalService.ListSessions`.

use super::convert;
use crate::port::{
    ListFilter, ListOrder, ListQuery, PageToken, SessionEntry, SessionStatus, Store,
};
use cairn_proto::memory as pb;
use cairn_rpc::{RpcError, check_session_id, check_text, principal};
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use tonic::{Request, Response, Status};

const DEFAULT_PAGE: usize = 100;
const MAX_PAGE: usize = 1000;
const MAX_STATUSES: usize = 8;

pub(super) async fn sessions(
    store: &Arc<dyn Store>,
    request: Request<pb::ListSessionsRequest>,
) -> Result<Response<pb::ListSessionsResponse>, Status> {
    let namespace = principal(&request)?.namespace().clone();
    let request = request.into_inner();
    let mark = mark(&request);
    let query = query(request, &mark)?;
    let page = store.list(namespace.as_str(), &query).await;
    let page = page.map_err(RpcError::from)?;
    let token = |PageToken { number, session }| format!("{mark}.{number}.{session}");
    Ok(Response::new(pb::ListSessionsResponse {
        sessions: page.sessions.into_iter().map(entry).collect(),
        next_page_token: page.next.map(token).unwrap_or_default(),
    }))
}

/// Ties a page's token to the filter and the order: it means nothing with others.
fn mark(request: &pb::ListSessionsRequest) -> String {
    let asked = pb::ListSessionsRequest {
        page_size: 0,
        page_token: String::new(),
        ..request.clone()
    };
    let digest = Sha256::digest(asked.encode_to_vec());
    digest.iter().take(4).map(|b| format!("{b:02x}")).collect()
}

fn query(request: pb::ListSessionsRequest, mark: &str) -> Result<ListQuery, RpcError> {
    Ok(ListQuery {
        max: page_length(request.page_size)?,
        from: page_start(&request.page_token, mark)?,
        order: match pb::SessionOrder::try_from(request.order) {
            Ok(pb::SessionOrder::Unspecified | pb::SessionOrder::Created) => ListOrder::Created,
            Ok(pb::SessionOrder::Changed) => ListOrder::Changed,
            Err(_) => {
                let problem = format!("is {}", request.order);
                return Err(RpcError::invalid("order", problem).allowed("0 to 2"));
            }
        },
        is_ascending: request.ascending,
        filter: filter(request.filter.unwrap_or_default())?,
    })
}

fn filter(filter: pb::SessionFilter) -> Result<ListFilter, RpcError> {
    at_most("filter.statuses", filter.statuses.len(), MAX_STATUSES)?;
    at_most("filter.pending", filter.pending.len(), convert::MAX_KINDS)?;
    let statuses = filter.statuses.into_iter().enumerate();
    let statuses = statuses
        .map(|(index, status)| convert::status(&format!("filter.statuses[{index}]"), status));
    let kinds = filter.pending.into_iter().enumerate();
    let kinds = kinds.map(|(index, kind)| convert::kind(&format!("filter.pending[{index}]"), kind));
    check_text("filter.prefix", &filter.prefix, convert::MAX_TITLE)?;
    Ok(ListFilter {
        statuses: statuses.collect::<Result<Vec<SessionStatus>, _>>()?,
        quarantined: filter.quarantined,
        pending: kinds.collect::<Result<_, _>>()?,
        has_pending: filter.has_pending,
        agent: convert::agent("filter.agent", filter.agent)?,
        prefix: filter.prefix,
        changed_after: time("filter.changed_after_unix_ms", filter.changed_after_unix_ms)?,
        changed_before: time(
            "filter.changed_before_unix_ms",
            filter.changed_before_unix_ms,
        )?,
    })
}

fn at_most(field: &str, count: usize, most: usize) -> Result<(), RpcError> {
    if count <= most {
        return Ok(());
    }
    let problem = format!("has {count} entries");
    Err(RpcError::invalid(field, problem).allowed(format!("at most {most}")))
}

/// 0 for none.
fn time(field: &str, unix_ms: i64) -> Result<Option<i64>, RpcError> {
    if unix_ms < 0 {
        return Err(RpcError::invalid(field, "is negative").allowed("0, or a time"));
    }
    Ok(Some(unix_ms).filter(|&at| at > 0))
}

fn page_length(page_size: u32) -> Result<usize, RpcError> {
    match usize::try_from(page_size).unwrap_or(usize::MAX) {
        0 => Ok(DEFAULT_PAGE),
        size if size <= MAX_PAGE => Ok(size),
        size => Err(RpcError::invalid("page_size", format!("is {size}")).allowed("0 to 1000")),
    }
}

fn page_start(token: &str, mark: &str) -> Result<Option<PageToken>, RpcError> {
    if token.is_empty() {
        return Ok(None);
    }
    let refused = |problem: &str| {
        RpcError::invalid("page_token", problem)
            .allowed("empty, or a next_page_token of the same filter and order")
    };
    let mut parts = token.splitn(3, '.');
    let (of, number, session) = (parts.next(), parts.next(), parts.next());
    let number = number.and_then(|number| number.parse().ok());
    let number = number.filter(|number| *number < 1_u64 << 53);
    let (Some(of), Some(number), Some(session)) = (of, number, session) else {
        return Err(refused("is not a token"));
    };
    check_session_id("page_token", session).map_err(|_| refused("is not a token"))?;
    if of != mark {
        return Err(refused("is of a listing with another filter or order"));
    }
    let session = session.to_owned();
    Ok(Some(PageToken { number, session }))
}

fn entry(entry: SessionEntry) -> pb::SessionEntry {
    pb::SessionEntry {
        session: entry.session,
        status: convert::status_number(entry.status),
        created_unix_ms: entry.created_unix_ms,
        updated_unix_ms: entry.updated_unix_ms,
        last_seq: entry.last_seq,
        quarantined: entry.quarantined.is_some(),
        quarantine_reason: convert::quarantine_number(entry.quarantined),
        title: entry.title,
        agent: entry.agent,
        tokens: entry.tokens,
        cost_nano_usd: entry.cost_nano_usd,
        pending: convert::pending_messages(entry.pending),
        needs: entry.needs.number().into(),
    }
}
