//! How many bytes contexts, agents and ended turns have. A session gathers them as long as it lives.

use super::Session;

/// Bytes of the contexts, the agents and the ended turns of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Messages of contexts, definitions of agents, and texts of ended turns. The journal had them in about as many bytes.
    pub texts: usize,
    /// The same, with the records of ended turns.
    pub memory: usize,
}

impl Session {
    /// Looks at each context and each agent once, whatever it has.
    pub fn sizes(&self) -> Sizes {
        let contexts = self.contexts.values().map(|context| context.bytes);
        let contexts = contexts.fold(0, u64::saturating_add);
        let contexts = usize::try_from(contexts).unwrap_or(usize::MAX);
        let agents: usize = self.agents.values().map(|agent| agent.bytes()).sum();
        let shared = contexts.saturating_add(agents);
        Sizes {
            texts: shared.saturating_add(self.runs.text_bytes()),
            memory: shared.saturating_add(self.runs.record_bytes()),
        }
    }
}
