//! The tools that may be called, as the tools service lists them.

mod code_generation;
mod first;
mod part;
mod pool;

pub(crate) use part::{PartOf, Use};

use super::Dispatcher;
use super::pool::PoolTools;
use cairn_engine::decide::{Away, CODE_GENERATION, SEARCH_TOOLS, STATE_TOOLS, ToolFacts, ToolList};
use cairn_engine::escape::entry;
use cairn_engine::event::Effect;
use cairn_engine::key::{digest, hex};
use cairn_engine::rules::{Answer, DEFAULT_AGENT, Matcher, MatcherKind, Rule, Rules, ToolServer};
use cairn_proto::event::Effect as WireEffect;
use cairn_proto::executor::{Catalogue as Offered, OfferedTool};
use cairn_proto::tools::tools_service_client::ToolsServiceClient;
use cairn_proto::tools::{
    ListToolsRequest, ListToolsResponse, Matcher as WireMatcher, MatcherKind as WireKind,
    RuleAnswer, ToolRule, ToolSource, ToolSourceState, ToolSpec,
};
use cairn_rpc::{Link, RpcError};
use part::Parts;
use prost::Message as _;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long the tools service holds a question for another list.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// The pause before the tools service is asked again that had nothing new, or did not answer.
const PAUSE: Duration = Duration::from_secs(1);
/// The source of Cairn's own tools.
const BUILT_IN: &str = "built-in";
/// Sources whose tools every model is offered from the start: they are the operator's own, and few.
const ALWAYS_OFFERED: [&str; 2] = [BUILT_IN, "program"];
/// No agent has this name, so only rules for all agents hold for it.
pub(crate) const EVERY_AGENT: &str = "";
/// Between the name of a server and the name of its tool.
pub(crate) const SEPARATOR: &str = "__";

/// A reading of the catalogue.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    /// What decisions need to know. A tool that rules deny every agent is not in it.
    pub(crate) facts: Arc<ToolList>,
    /// Who decides about calls.
    pub(crate) rules: Arc<Rules>,
    /// What models are offered, state tools included, sorted by name so that prompt caches hit.
    pub(crate) offered: Offered,
    /// Names what is offered: another content has another name.
    pub(crate) name: String,
    /// Servers whose tools are not in it, as they cannot be reached.
    pub(crate) away: Arc<[Away]>,
    /// How much the tools process can read that listed them; 0 if none did.
    pub(super) level: u32,
    /// What it says of the pool.
    pub(super) pool: Arc<PoolTools>,
    /// Of the list that it was read from.
    digest: String,
    /// The tools of that list, for a source that is out of reach at the next reading.
    listed: Vec<ToolSpec>,
    /// Servers that are being started and whose tools are not in it.
    starting: Vec<String>,
    /// There are such servers, or others that may be reached later or by another replica.
    may_grow: bool,
    /// The parts for agents that were made of it.
    parts: Parts,
}

impl Catalogue {
    /// The tools as they are now.
    pub(crate) async fn read(tools: &Link) -> Result<Self, RpcError> {
        Self::read_after(tools, &Self::default(), Duration::ZERO).await
    }

    /// The tools once their list has another digest than that of `last`, or after `wait`.
    async fn read_after(tools: &Link, last: &Self, wait: Duration) -> Result<Self, RpcError> {
        let request = ListToolsRequest {
            known_digest: last.digest.clone(),
            wait_ms: u32::try_from(wait.as_millis()).unwrap_or(u32::MAX),
        };
        let mut request = tonic::Request::new(request);
        request.set_timeout(wait + LONGEST_WAIT);
        let listed = ToolsServiceClient::new(tools.clone())
            .list_tools(request)
            .await?;
        Self::of(listed.into_inner(), last)
    }

    /// What a list says. A server that cannot be reached keeps the tools that it had in `last`.
    fn of(mut listed: ListToolsResponse, last: &Self) -> Result<Self, RpcError> {
        let rules = compiled(std::mem::take(&mut listed.rules))?;
        let tools = std::mem::take(&mut listed.tools);
        let all = with_known(tools, &listed.sources, &last.listed);
        let is_without = |source: &&ToolSource| !has_tools(&all, source);
        let without = || listed.sources.iter().filter(is_without);
        let starting = without().filter(|it| it.state() == ToolSourceState::Starting);
        let starting = starting.map(|source| source.name.clone()).collect();
        let may_grow = without().any(may_be_reached);
        let away: Arc<[Away]> = without().filter_map(away).collect();
        let callable = all.iter().filter(|tool| tool.disabled.is_empty());
        let callable = callable.filter(|tool| !rules.always_deny(&tool.name, EVERY_AGENT));
        let mut tools: Vec<ToolSpec> = callable.cloned().collect();
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        let is_many = tools.len() > listed.offered as usize;
        let is_deferred =
            |tool: &ToolSpec| is_many && !ALWAYS_OFFERED.contains(&tool.source.as_str());
        let facts = tools.iter().map(|tool| {
            let server = server_of(tool, &listed.sources);
            (tool.name.clone(), facts(tool, is_deferred(tool), server))
        });
        let mut facts: ToolList = facts.collect();
        let generates_code = !rules.always_deny(CODE_GENERATION, EVERY_AGENT)
            && !facts.contains_key(CODE_GENERATION);
        if generates_code {
            facts.insert(CODE_GENERATION.to_owned(), code_generation::facts());
        }
        let mut catalogue = Self {
            pool: Arc::new(pool::pool_tools(&listed, &facts)),
            facts: Arc::new(facts),
            away,
            level: listed.level.max(1),
            digest: listed.digest,
            listed: all,
            starting,
            may_grow,
            ..Self::default()
        };
        let offered = tools.into_iter().map(|tool| OfferedTool {
            is_deferred: is_deferred(&tool),
            is_allowed: rules.always_allow(
                &tool.name,
                DEFAULT_AGENT,
                answer(tool.default_answer()),
            ),
            effect: tool.effect,
            name: tool.name,
            description: tool.description,
            parameters_json: tool.parameters_json,
            digest: tool.digest,
        });
        let mut offered: Vec<_> = offered.collect();
        offered.extend(generates_code.then(code_generation::offered));
        offered.extend(state_tools(is_many));
        offered.sort_by(|a, b| a.name.cmp(&b.name));
        catalogue.rules = Arc::new(rules);
        catalogue.offer(offered);
        Ok(catalogue)
    }

    fn offer(&mut self, tools: Vec<OfferedTool>) {
        self.offered = Offered { tools };
        self.name = hex(&digest(&[&self.offered.encode_to_vec()]));
    }

    /// A layer of the planner's prompt: the tools that steps may name. Empty if there is none.
    pub(crate) fn prompt(&self) -> String {
        let tools = self.offered.tools.iter();
        let tools = tools.filter(|tool| self.facts.contains_key(&tool.name));
        prompt(&tools.cloned().collect::<Vec<_>>())
    }
}

/// The session's own tools. A model finds others only where there are many.
fn state_tools(is_many: bool) -> impl Iterator<Item = OfferedTool> {
    let state_tools = STATE_TOOLS.iter();
    let state_tools = state_tools.filter(move |tool| is_many || tool.name != SEARCH_TOOLS);
    state_tools.map(|tool| OfferedTool {
        name: tool.name.to_owned(),
        description: tool.description.to_owned(),
        parameters_json: tool.parameters.to_owned(),
        effect: WireEffect::State.into(),
        is_allowed: true,
        ..OfferedTool::default()
    })
}

/// The tools of a list, and those that were known of each server that this replica of tools cannot reach. It
/// may be back soon, and another replica may reach it: a call waits for either.
fn with_known(
    mut tools: Vec<ToolSpec>,
    sources: &[ToolSource],
    known: &[ToolSpec],
) -> Vec<ToolSpec> {
    for source in sources.iter().filter(|source| may_be_reached(source)) {
        if !has_tools(&tools, source) {
            let of_source = known.iter().filter(|tool| tool.source == source.name);
            tools.extend(of_source.cloned());
        }
    }
    tools
}

/// Whether a server has no connection, and may have one soon, or with another replica.
fn may_be_reached(source: &ToolSource) -> bool {
    let state = source.state();
    matches!(
        state,
        ToolSourceState::Starting | ToolSourceState::Unreachable
    )
}

fn has_tools(tools: &[ToolSpec], source: &ToolSource) -> bool {
    tools.iter().any(|tool| tool.source == source.name)
}

/// Why a server has no tools, if it may have some.
fn away(source: &ToolSource) -> Option<Away> {
    let name = &source.name;
    let why = match source.state() {
        ToolSourceState::Starting => format!("server '{name}' is being started"),
        ToolSourceState::NotAllowed | ToolSourceState::Unreachable => {
            format!("server '{name}' cannot be reached: {}", source.problem)
        }
        ToolSourceState::Ready | ToolSourceState::Unspecified => return None,
    };
    Some(Away {
        prefix: format!("{name}{SEPARATOR}"),
        why,
    })
}

/// The server of a tool, if it is of one. Other sources have no digest.
fn server_of(tool: &ToolSpec, sources: &[ToolSource]) -> Option<ToolServer> {
    let source = sources.iter().find(|source| source.name == tool.source)?;
    (!source.digest.is_empty()).then(|| ToolServer {
        name: source.name.clone(),
        digest: source.digest.clone(),
    })
}

fn facts(tool: &ToolSpec, is_deferred: bool, server: Option<ToolServer>) -> ToolFacts {
    let effect = match tool.effect() {
        WireEffect::Pure => Effect::Pure,
        WireEffect::Idempotent => Effect::Idempotent,
        WireEffect::Effectful | WireEffect::Unspecified | WireEffect::State => Effect::Effectful,
    };
    let found_by = || (tool.description.clone(), tool.parameters_json.clone());
    ToolFacts {
        effect,
        time_limit_ms: tool.time_limit_ms,
        in_process: tool.in_process,
        digest: tool.digest.clone(),
        default: answer(tool.default_answer()),
        matchers: tool.matchers.iter().map(matcher).collect(),
        deferred: is_deferred.then(found_by),
        previews: tool.previews,
        is_built_in: tool.source == BUILT_IN,
        is_confined: tool.is_confined,
        opens: tool.opens.clone(),
        server,
    }
}

pub(crate) fn answer(answer: RuleAnswer) -> Answer {
    match answer {
        RuleAnswer::Allow => Answer::Allow,
        RuleAnswer::Ask | RuleAnswer::Unspecified => Answer::Ask,
        RuleAnswer::Deny => Answer::Deny,
    }
}

pub(crate) fn matcher(matcher: &WireMatcher) -> Matcher {
    Matcher {
        name: matcher.name.clone(),
        kind: match matcher.kind() {
            WireKind::Path => MatcherKind::Path,
            WireKind::Host => MatcherKind::Host,
            WireKind::Json => MatcherKind::Json,
            WireKind::Prose => MatcherKind::Prose,
            WireKind::Free => MatcherKind::Free,
            WireKind::Text | WireKind::Unspecified => MatcherKind::Text,
        },
        argument: matcher.argument.clone(),
        default: matcher.default_value.clone(),
        folder: Some(matcher.folder.clone()).filter(|folder| !folder.is_empty()),
    }
}

/// The rules of a list, ready to judge by.
pub(crate) fn compiled(rules: Vec<ToolRule>) -> Result<Rules, RpcError> {
    let rules = rules.into_iter().map(rule).collect();
    Rules::new(rules)
        .map_err(|(at, field, problem)| RpcError::invalid(format!("rules[{at}].{field}"), problem))
}

fn rule(rule: ToolRule) -> Rule {
    let when = rule.when.iter();
    Rule {
        when: when
            .map(|condition| (condition.name.clone(), condition.pattern.clone()))
            .collect(),
        answer: answer(rule.answer()),
        agent: Some(rule.agent).filter(|agent| !agent.is_empty()),
        tool: rule.tool,
    }
}

impl Dispatcher {
    /// Reads the catalogue at once: a call was not sent because of what changed there.
    pub(crate) async fn read_again(&self) {
        let last = self.catalogue();
        match Catalogue::read_after(&self.tools, &last, Duration::ZERO).await {
            Ok(catalogue) => self.set_catalogue(catalogue),
            Err(error) => tracing::warn!(%error, "catalogue of tools cannot be read"),
        }
    }
}

/// Keeps the catalogue of a dispatcher fresh, until stopped.
pub(crate) async fn refresh(dispatcher: Arc<Dispatcher>, stop: CancellationToken) {
    loop {
        let last = dispatcher.catalogue();
        let changed = Catalogue::read_after(&dispatcher.tools, &last, LONGEST_WAIT);
        let read = tokio::select! {
            () = stop.cancelled() => return,
            read = changed => read,
        };
        match read {
            // Also one with the same digest: states of servers are not in it.
            Ok(catalogue) => dispatcher.set_catalogue(catalogue),
            Err(error) => tracing::warn!(%error, "catalogue of tools cannot be read"),
        }
        // Replicas of tools may differ for long, and each answer comes at once then.
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

/// What a planner is told of the tools: what each is for and what it takes.
fn prompt(tools: &[OfferedTool]) -> String {
    if tools.is_empty() {
        return String::new();
    }
    let mut text =
        "# Tools\n\nThe tools that a step can name in `tool`, each with the JSON Schema of its arguments. A step that \
         the model carries out has further ones, such as `read_result`, and `retrieve` for pages of knowledge if there \
         are any.\n"
            .to_owned();
    for tool in tools.iter().filter(|tool| !tool.is_deferred) {
        let OfferedTool {
            name,
            description,
            parameters_json,
            ..
        } = tool;
        let tool = format!("`{name}`: {description} Arguments: `{parameters_json}`");
        text.push_str("\n- ");
        text.push_str(&entry(&tool));
    }
    let deferred = tools.iter().filter(|tool| tool.is_deferred).count();
    if deferred > 0 {
        let more = format!(
            "\n\nA step that is carried out by the model can find {deferred} further tools by what they do."
        );
        text.push_str(&more);
    }
    text
}

#[cfg(test)]
mod tests;
