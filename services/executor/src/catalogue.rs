//! Catalogues of tools by name. A process reads each once, and keeps the last ones.

use cairn_engine::event::Effect;
use cairn_model::OfferedTool;
use cairn_model::tokens::estimate_tools;
use cairn_proto::executor::{self, Catalogue as Listed};
use cairn_rpc::RpcError;
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// So many are kept. There are several where tools come and go, or namespaces have their own.
const MOST: usize = 16;

/// The tools on offer, as they are needed here.
#[derive(Debug)]
pub(crate) struct Catalogue {
    name: String,
    /// For the model.
    pub(crate) tools: Arc<[OfferedTool]>,
    /// Names of tools whose calls need not wait until the reply that asks for them is durable.
    pub(crate) early: HashSet<String>,
    /// What they take of each request, estimated in tokens.
    pub(crate) tokens: u64,
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
        let is_early = |tool: &&executor::OfferedTool| {
            Effect::from(tool.effect()) == Effect::Pure && !tool.needs_approval
        };
        let early = listed.tools.iter().filter(is_early);
        let early = early.map(|tool| tool.name.clone()).collect();
        let tools = listed.tools.into_iter().enumerate();
        let tools: Vec<_> = tools
            .map(|(at, tool)| offered_tool(at, tool))
            .collect::<Result<_, _>>()?;
        let catalogue = Arc::new(Catalogue {
            name: name.to_owned(),
            tokens: estimate_tools(&tools),
            tools: tools.into(),
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
