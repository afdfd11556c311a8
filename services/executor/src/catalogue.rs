//! Catalogues of tools by name. A process reads each once, and keeps the last ones.

use cairn_engine::decide::CODE_GENERATION;
use cairn_engine::event::Effect;
use cairn_model::OfferedTool;
use cairn_model::tokens::estimate_tools;
use cairn_proto::executor::{self, Catalogue as Listed};
use cairn_rpc::RpcError;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// So many are kept. There are several where tools come and go, or namespaces have their own.
const MOST: usize = 16;

/// The tools on offer, as they are needed here.
#[derive(Debug)]
pub(crate) struct Catalogue {
    name: String,
    /// For the model, from the start.
    tools: Arc<[OfferedTool]>,
    /// For a model that has found them.
    deferred: HashMap<String, OfferedTool>,
    /// Tools, by name with their digests, whose calls need not wait until the reply that asks for them is durable.
    early: HashMap<String, String>,
    /// What those from the start take of each request, estimated in tokens.
    tokens: u64,
}

/// What a model is offered: tools, and what they take of each request, estimated in tokens.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    pub(crate) tools: Arc<[OfferedTool]>,
    pub(crate) tokens: u64,
}

impl Catalogue {
    /// The name that owners give it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The digest of a tool whose calls need not wait until the reply that asks for them is durable.
    pub(crate) fn early(&self, tool: &str) -> Option<&str> {
        self.early.get(tool).map(String::as_str)
    }

    /// The tools from the start, and those found since. Found ones come last, so that prompt caches hit.
    pub(crate) fn offer(&self, found: &[String]) -> Offer {
        let found: Vec<_> = found
            .iter()
            .filter_map(|name| self.deferred.get(name).cloned())
            .collect();
        match found.is_empty() {
            true => Offer {
                tools: Arc::clone(&self.tools),
                tokens: self.tokens,
            },
            false => Offer {
                tokens: self.tokens + estimate_tools(&found),
                tools: self.tools.iter().cloned().chain(found).collect(),
            },
        }
    }
}

/// The last catalogues that owners have named.
#[derive(Debug, Default)]
pub(crate) struct Catalogues(Mutex<VecDeque<Arc<Catalogue>>>);

impl Catalogues {
    /// The one of that name, if it is here.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Catalogue>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|known| known.name == name)?;
        let found = kept.remove(at)?;
        kept.push_front(found.clone());
        Some(found)
    }

    /// Takes the one of that name in.
    pub(crate) fn keep(&self, name: &str, listed: Listed) -> Result<Arc<Catalogue>, RpcError> {
        // A call that asks a model is paid for, so it waits for its permit whatever the owner says.
        let is_early = |tool: &&executor::OfferedTool| {
            let is_free = tool.is_allowed && tool.name != CODE_GENERATION;
            Effect::from(tool.effect()) == Effect::Pure && is_free
        };
        let early = listed.tools.iter().filter(is_early);
        let early = early
            .map(|tool| (tool.name.clone(), tool.digest.clone()))
            .collect();
        let (mut tools, mut deferred) = (Vec::new(), HashMap::new());
        for (at, tool) in listed.tools.into_iter().enumerate() {
            let is_deferred = tool.is_deferred;
            let tool = offered_tool(at, tool)?;
            match is_deferred {
                true => drop(deferred.insert(tool.name.clone(), tool)),
                false => tools.push(tool),
            }
        }
        let catalogue = Arc::new(Catalogue {
            name: name.to_owned(),
            tokens: estimate_tools(&tools),
            tools: tools.into(),
            deferred,
            early,
        });
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_front(catalogue.clone());
        kept.truncate(MOST);
        Ok(catalogue)
    }
}

fn offered_tool(at: usize, tool: executor::OfferedTool) -> Result<OfferedTool, RpcError> {
    let parameters = serde_json::from_str(&tool.parameters_json).map_err(|error| {
        let field = format!("catalogue.tools[{at}].parameters_json");
        RpcError::invalid(field, format!("is not JSON: {error}"))
    })?;
    Ok(OfferedTool {
        name: tool.name,
        description: tool.description,
        parameters,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 40 tools of each of 5 servers, as large as those of real ones, besides 4 of our own.
    fn listed(is_deferred: bool) -> Listed {
        let schema = r#"{"type":"object","properties":{"owner":{"type":"string","description":"Account that owns the repository."},"repo":{"type":"string","description":"Name of the repository."},"number":{"type":"integer","minimum":1}},"required":["owner","repo"]}"#;
        let tool = |name: String, is_deferred| executor::OfferedTool {
            name,
            description: "Reads one thing of a repository, and gives it as JSON.".to_owned(),
            parameters_json: schema.to_owned(),
            is_deferred,
            ..executor::OfferedTool::default()
        };
        let own = (0..4).map(|at| tool(format!("own_{at}"), false));
        let of_servers =
            (0..200).map(|at| tool(format!("server{}__tool_{at}", at / 40), is_deferred));
        Listed {
            tools: own.chain(of_servers).collect(),
        }
    }

    #[test]
    fn deferred_tools_cost_a_request_nothing_until_they_are_found() {
        let catalogues = Catalogues::default();
        let all = catalogues.keep("all", listed(false)).expect("JSON");
        let few = catalogues.keep("few", listed(true)).expect("JSON");
        let (all, few) = (all.offer(&[]), few);
        let start = few.offer(&[]);
        println!(
            "tokens: {} with all tools, {} with search",
            all.tokens, start.tokens
        );
        assert_eq!((all.tools.len(), start.tools.len()), (204, 4));
        assert!(start.tokens * 40 < all.tokens);
        // What was found comes last, so that a provider's cache reads what came before.
        let found = few.offer(&["server3__tool_130".to_owned(), "unknown".to_owned()]);
        assert_eq!(found.tools[..4], start.tools[..]);
        assert_eq!(found.tools[4].name, "server3__tool_130");
        assert!(found.tokens > start.tokens && found.tools.len() == 5);
    }
}
