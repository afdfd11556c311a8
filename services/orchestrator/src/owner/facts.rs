//! What decisions need to know beside the state.

use crate::deps::Deps;
use crate::dispatch::Catalogue;
use cairn_engine::decide::{Agents, Facts, ToolList};
use cairn_engine::event::AttemptRef;
use cairn_engine::hooks::PresentHooks;
use cairn_engine::pool::PoolFacts;
use cairn_views::elicitation;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The facts of this moment, without agents, hooks and the pool. How full the journal is, only its owner knows.
///
/// `offered` has the tools that the start of each running attempt offered. After `not_after`, in milliseconds since
/// 1970 by the store's clock, no effectful call may begin. With `starts`, steps may be started.
pub(crate) fn facts<'a>(
    deps: &'a Deps,
    catalogue: &'a Catalogue,
    offered: &'a BTreeMap<AttemptRef, Arc<ToolList>>,
    not_after: u64,
    starts: bool,
) -> Facts<'a> {
    Facts {
        now: deps.store.clock.now(),
        not_after,
        tools: &catalogue.facts,
        away: &catalogue.away,
        offered,
        agents: Agents::none(),
        rules: &catalogue.rules,
        prompts: deps.config.prompts.of_decisions(),
        environment: &deps.config.environment,
        limits: deps.config.limits,
        compaction: deps.config.compaction,
        result_bytes: deps.config.result_bytes,
        journal_permille: 0,
        responses: elicitation::responses,
        // The owner puts what it knows in its place.
        pool: PoolFacts::none(),
        // The owner puts those that there are in their place, if a run may begin.
        hooks: PresentHooks::none(),
        starts: starts && deps.config.runs_steps(),
        // The owner says when it has those hooks.
        starts_queued: false,
    }
}
