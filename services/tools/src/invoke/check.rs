//! What is checked of a call before the gate: the tool, the permissions, the arguments, what it touches.

use super::{Invoker, Request, crashed};
use crate::error::ToolError;
use crate::registry::{Entry, Snapshot, unknown};
use crate::schema;
use crate::tool::Rejudge;
use cairn_engine::rules::{Condition, scope};

impl Invoker {
    /// The tool and the arguments of a call that may be made, as far as texts show.
    ///
    /// # Errors
    /// Why it may not.
    pub(super) fn check(&self, request: &Request) -> Result<(Entry, serde_json::Value), ToolError> {
        let tools = self.registry.now();
        let Some(entry) = tools.find(&request.name) else {
            return Err(self.not_here(request, &tools));
        };
        self.permissions.check(&request.name, &request.agent)?;
        if let Some(why) = &entry.disabled {
            let message = format!("tool '{}' is disabled: {why}", request.name);
            return Err(ToolError::Denied(message));
        }
        let is_judged = request.tool_digest.is_empty() || request.tool_digest == entry.digest;
        if !is_judged {
            return Err(rejudge(entry, Vec::new()));
        }
        let arguments = schema::parse(&request.arguments, entry.spec().argument_limit)?;
        entry.schema.check(&arguments)?;
        Ok((entry.clone(), arguments))
    }

    /// Refuses a call that really touches something else than what was judged.
    ///
    /// # Errors
    /// Why it may not be made.
    pub(super) async fn check_scope(
        &self,
        request: &Request,
        entry: &Entry,
    ) -> Result<(), ToolError> {
        let matchers = &entry.spec().matchers;
        let textual = scope(matchers, &request.arguments, &[]);
        let tool = entry.tool.clone();
        // It looks at links, and the disk may stall.
        let links = tokio::task::spawn_blocking(move || tool.links(&textual)).await;
        let links = links.map_err(|error| crashed(&request.name, &error))?;
        let real = scope(matchers, &request.arguments, &links);
        self.permissions
            .check_scope(&request.name, &real, &request.agent)?;
        match links == request.resolved {
            true => Ok(()),
            false => Err(rejudge(entry, links)),
        }
    }

    /// A tool whose server is away is there for all that: its calls wait.
    fn not_here(&self, request: &Request, tools: &Snapshot) -> ToolError {
        let name = request.name.as_str();
        match self.registry.missing(name) {
            Some(why) => match self.permissions.check(name, &request.agent) {
                Err(denied) => denied,
                Ok(()) => ToolError::Unreachable(format!("tool '{name}' is out of reach: {why}")),
            },
            None => {
                let known = tools.iter().map(|entry| entry.spec().name.as_str());
                unknown(name, known.filter(|name| self.permissions.allows(name)))
            }
        }
    }
}

fn rejudge(entry: &Entry, resolved: Vec<Condition>) -> ToolError {
    ToolError::Rejudge(Rejudge {
        tool_digest: entry.digest.clone(),
        resolved,
        file: None,
    })
}
