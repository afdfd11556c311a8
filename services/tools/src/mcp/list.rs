//! The tools of a server: asked for page by page, and judged as they come. Of a tool that is left out, only
//! a line stays: a page may need many times the memory of its text.

use super::connect::Target;
use super::error::of_request;
use super::frame::left_out;
use super::tool;
use super::{MOST_LIST_BYTES, MOST_PAGES, MOST_TOOLS};
use crate::text;
use crate::tool::ToolSpec;
use rmcp::model::{self, ListToolsResult, PaginatedRequestParams};
use rmcp::service::{Peer, RoleClient, ServiceError};
use std::collections::BTreeSet;
use std::time::Duration;

/// Most lines about tools that are left out.
const MOST_LINES: usize = 20;
/// Most characters of the name of a tool that is left out.
const MOST_NAME: usize = 128;

fn short(name: &str) -> String {
    text::brief(name, MOST_NAME)
}

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
    let mut followed = BTreeSet::new();
    for number in 1..=MOST_PAGES {
        let mut params = PaginatedRequestParams::default();
        params.cursor = cursor;
        let page = match peer.list_tools(Some(params)).await {
            Ok(page) => page,
            // What came before is listed all the same.
            Err(error @ (ServiceError::McpError(_) | ServiceError::UnexpectedResponse))
                if number > 1 =>
            {
                let why = of_request(&error);
                list.leave_out(format!(
                    "page {number} is left out, and those after it: the server {why}"
                ));
                return Ok(list);
            }
            Err(error) => return Err(of_request(&error)),
        };
        if number > 1 && list.has_all_of(&page) {
            // It begins again.
            return Ok(list);
        }
        cursor = page.next_cursor.clone();
        list.add_page(target, page);
        let Some(next) = &cursor else {
            return Ok(list);
        };
        if list.is_cut {
            return Ok(list);
        }
        if !followed.insert(next.clone()) {
            list.leave_out(format!(
                "the pages after page {number} are left out: its nextCursor repeats"
            ));
            return Ok(list);
        }
    }
    list.is_cut = true;
    Ok(list)
}

impl List {
    /// Whether a page has tools, and none that is new.
    fn has_all_of(&self, page: &ListToolsResult) -> bool {
        let is_known = |tool: &model::Tool| self.names.contains(&short(&tool.name));
        !page.tools.is_empty() && page.tools.iter().all(is_known)
    }

    fn add_page(&mut self, target: &Target, page: ListToolsResult) {
        let holds = page.ttl_ms.map(Duration::from_millis);
        self.holds = match (self.holds, holds) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        for line in left_out(&page) {
            self.leave_out(line.to_owned());
        }
        for tool in page.tools {
            self.add(target, tool);
        }
    }

    fn add(&mut self, target: &Target, tool: model::Tool) {
        if self.names.len() == MOST_TOOLS {
            self.is_cut = true;
        }
        if self.is_cut {
            return;
        }
        let remote = short(&tool.name);
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
