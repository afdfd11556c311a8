//! The tools of a server: asked for page by page, within limits.

use super::error::of_request;
use super::{MOST_PAGES, MOST_TOOLS};
use rmcp::model::{PaginatedRequestParams, Tool};
use rmcp::service::{Peer, RoleClient};
use std::time::Duration;

/// What a server lists.
pub(crate) struct Tools {
    pub(crate) tools: Vec<Tool>,
    /// There are more than are taken.
    pub(crate) is_cut: bool,
    /// How long the server says that this holds.
    pub(crate) holds: Option<Duration>,
}

/// Asks for the tools.
///
/// # Errors
/// Why there are none, in words that follow the server's name.
pub(crate) async fn tools(peer: &Peer<RoleClient>, time: Duration) -> Result<Tools, String> {
    match tokio::time::timeout(time, pages(peer)).await {
        Ok(tools) => tools,
        Err(_) => Err(format!(
            "did not list its tools within {} ms",
            time.as_millis()
        )),
    }
}

async fn pages(peer: &Peer<RoleClient>) -> Result<Tools, String> {
    let mut listed = Tools {
        tools: Vec::new(),
        is_cut: false,
        holds: None,
    };
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let mut params = PaginatedRequestParams::default();
        params.cursor = cursor;
        let page = peer.list_tools(Some(params)).await;
        let page = page.map_err(|error| of_request(&error))?;
        let holds = page.ttl_ms.map(Duration::from_millis);
        listed.holds = match (listed.holds, holds) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let room = MOST_TOOLS - listed.tools.len();
        listed.is_cut |= page.tools.len() > room;
        listed.tools.extend(page.tools.into_iter().take(room));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(listed);
        }
        if listed.tools.len() == MOST_TOOLS {
            break;
        }
    }
    listed.is_cut = true;
    Ok(listed)
}
