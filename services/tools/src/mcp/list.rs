//! The tools of a server: asked for page by page, and judged as they come. Of a tool that is left out, only
//! a line stays: a page may need many times the memory of its text.

use super::connect::Target;
use super::error::of_request;
use super::tool;
use super::{MOST_LIST_BYTES, MOST_PAGES, MOST_TOOLS};
use crate::text;
use crate::tool::ToolSpec;
use rmcp::model::{self, PaginatedRequestParams};
use rmcp::service::{Peer, RoleClient};
use std::collections::BTreeSet;
use std::time::Duration;

/// Most lines about tools that are left out.
const MOST_LINES: usize = 20;
/// Most characters of the name of a tool that is left out.
const MOST_NAME: usize = 128;

/// What a server lists.
#[derive(Default)]
pub(crate) struct List {
    /// The names at the server, with what is known of each tool.
    pub(crate) tools: Vec<(String, ToolSpec)>,
    /// How long the server says that this holds.
    pub(crate) holds: Option<Duration>,
    /// Of all tools that were judged.
    names: BTreeSet<String>,
    bytes: usize,
    is_cut: bool,
    left_out: Vec<String>,
    /// Lines beyond [`MOST_LINES`].
    more: usize,
}

/// Asks a server for its tools.
///
/// # Errors
/// Why there are none, in words that follow the server's name.
pub(crate) async fn tools(peer: &Peer<RoleClient>, target: &Target) -> Result<List, String> {
    let time = Duration::from_millis(target.config.start_ms);
    match tokio::time::timeout(time, pages(peer, target)).await {
        Ok(list) => list,
        Err(_) => Err(format!(
            "did not list its tools within {} ms",
            time.as_millis()
        )),
    }
}

async fn pages(peer: &Peer<RoleClient>, target: &Target) -> Result<List, String> {
    let mut list = List::default();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let mut params = PaginatedRequestParams::default();
        params.cursor = cursor;
        let page = peer.list_tools(Some(params)).await;
        let page = page.map_err(|error| of_request(&error))?;
        let holds = page.ttl_ms.map(Duration::from_millis);
        list.holds = match (list.holds, holds) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        for tool in page.tools {
            list.add(target, tool);
        }
        cursor = page.next_cursor;
        if cursor.is_none() || list.is_cut {
            return Ok(list);
        }
    }
    list.is_cut = true;
    Ok(list)
}

impl List {
    fn add(&mut self, target: &Target, tool: model::Tool) {
        if self.names.len() == MOST_TOOLS {
            self.is_cut = true;
        }
        if self.is_cut {
            return;
        }
        let remote = text::brief(&tool.name, MOST_NAME);
        if !self.names.insert(remote.clone()) {
            let shown = remote.escape_debug();
            return self.leave_out(format!("a second tool '{shown}' is left out"));
        }
        match tool::spec(target, tool) {
            Ok(spec) => {
                self.bytes += spec.bytes();
                self.is_cut |= self.bytes > MOST_LIST_BYTES;
                if !self.is_cut {
                    self.tools.push((remote, spec));
                }
            }
            Err(why) => self.leave_out(why),
        }
    }

    fn leave_out(&mut self, line: String) {
        match self.left_out.len() < MOST_LINES {
            true => self.left_out.push(line),
            false => self.more += 1,
        }
    }

    /// What is left out, in lines for a person.
    pub(crate) fn left_out(&mut self, target: &Target) -> Vec<String> {
        if self.is_cut {
            self.leave_out(format!(
                "it lists more than {MOST_TOOLS} tools or {MOST_LIST_BYTES} bytes; the rest is left out"
            ));
        }
        let declared = target.config.effects.keys().map(|name| ("effects", name));
        let allowed = target
            .config
            .allow
            .iter()
            .flatten()
            .map(|name| ("allow", name));
        for (field, name) in allowed.chain(declared) {
            if !self.names.contains(name) {
                self.leave_out(format!(
                    "{field} names '{name}', which the server does not list"
                ));
            }
        }
        let mut lines = std::mem::take(&mut self.left_out);
        if self.more > 0 {
            lines.push(format!("and {} more", self.more));
        }
        lines
    }
}
