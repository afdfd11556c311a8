//! The tools of a request in the form that its server takes.

use super::schema::{SchemaForm, offered};
use crate::{ModelError, OfferedTool};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The last tools, and how they were offered: most requests have the same ones.
#[derive(Debug)]
pub(super) struct Offers {
    form: SchemaForm,
    last: Mutex<Option<Offer>>,
    /// The tools that were left out, each with its reason. Each is logged once.
    left_out: Mutex<HashSet<String>>,
}

/// The tools that a server is sent, in their order.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    of: Arc<[OfferedTool]>,
    pub(crate) tools: Arc<[OfferedTool]>,
}

impl Offers {
    pub(super) fn new(form: SchemaForm) -> Self {
        Self {
            form,
            last: Mutex::default(),
            left_out: Mutex::default(),
        }
    }

    /// The tools as they are sent. Logs each tool that is not.
    pub(super) fn of(&self, tools: &Arc<[OfferedTool]>) -> Offer {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(offer) = last.as_ref().filter(|offer| Arc::ptr_eq(&offer.of, tools)) {
            return offer.clone();
        }
        let sent = tools.iter().filter_map(|tool| {
            let outcome = offered(tool, self.form);
            outcome.map_err(|why| self.leave_out(&tool.name, &why)).ok()
        });
        let offer = Offer {
            of: Arc::clone(tools),
            tools: sent.collect(),
        };
        *last = Some(offer.clone());
        offer
    }

    fn leave_out(&self, tool: &str, why: &str) {
        let mut known = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        if known.insert(format!("{tool}: {why}")) {
            tracing::warn!(
                tool,
                why,
                "tool left out: this model's server would refuse it"
            );
        }
    }
}

impl Offer {
    /// The same error with the name of the tool that it is about, where it has only the tool's number.
    pub(super) fn explain(&self, error: ModelError) -> ModelError {
        let ModelError::BadRequest { message } = error else {
            return error;
        };
        let tool = number_of_tool(&message).and_then(|number| self.tools.get(number));
        ModelError::BadRequest {
            message: match tool {
                Some(tool) if !message.contains(&tool.name) => format!(
                    "{message} (it is the tool {}; name it in tools.deny, or mend its schema)",
                    tool.name
                ),
                _ => message,
            },
        }
    }
}

/// The number in `tools.4`, `tools[4]` or `function_declarations[4]`. Gemini has all tools in one group, so
/// its `tools[0]` is none of them.
fn number_of_tool(message: &str) -> Option<usize> {
    let number = |name: &str| {
        message.match_indices(name).find_map(|(at, name)| {
            let rest = message[at + name.len()..].strip_prefix(['.', '['])?;
            let end = rest.find(|c: char| !c.is_ascii_digit());
            rest[..end.unwrap_or(rest.len())].parse().ok()
        })
    };
    number("function_declarations").or_else(|| number("tools"))
}
