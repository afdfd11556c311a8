//! The tools that may be called, as the tools service lists them.

use super::Dispatcher;
use cairn_engine::decide::{SEARCH_TOOLS, STATE_TOOLS, ToolFacts, ToolList};
use cairn_engine::escape::entry;
use cairn_engine::event::Effect;
use cairn_engine::key::{digest, hex};
use cairn_engine::rules::{Answer, DEFAULT_AGENT, Matcher, MatcherKind, Rule, Rules};
use cairn_proto::event::Effect as WireEffect;
use cairn_proto::executor::{Catalogue as Offered, OfferedTool};
use cairn_proto::tools::tools_service_client::ToolsServiceClient;
use cairn_proto::tools::{
    ListToolsRequest, ListToolsResponse, Matcher as WireMatcher, MatcherKind as WireKind,
    RuleAnswer, ToolRule, ToolSourceState, ToolSpec,
};
use cairn_rpc::{Link, RpcError};
use prost::Message as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long the tools service holds a question for another list.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// How long the start of an orchestrator waits for servers that are starting.
const LONGEST_START: Duration = Duration::from_secs(10);
/// The pause before the tools service is asked again that had nothing new, or did not answer.
const PAUSE: Duration = Duration::from_secs(1);
/// Sources whose tools every model is offered from the start: they are the operator's own, and few.
const ALWAYS_OFFERED: [&str; 2] = ["built-in", "program"];

/// A reading of the catalogue.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    /// What decisions need to know.
    pub(crate) facts: Arc<ToolList>,
    /// Who decides about calls.
    pub(crate) rules: Arc<Rules>,
    /// What models are offered, state tools included, sorted by name so that prompt caches hit.
    pub(crate) offered: Offered,
    /// Names what is offered: another content has another name.
    pub(crate) name: String,
    /// A layer of the planner's prompt: the tools that steps may name.
    pub(crate) prompt: String,
    /// Of the list that it was read from.
    digest: String,
    /// A server is being started, whose tools are not in it.
    is_starting: bool,
    /// The part that turns are offered which name no tools.
    of_turns: OnceLock<Arc<Self>>,
}

impl Catalogue {
    /// The tools as they are now.
    pub(crate) async fn read(tools: &Link) -> Result<Self, RpcError> {
        Self::read_after(tools, "", Duration::ZERO).await
    }

    /// The tools once no server is starting, or when that takes too long: a model must not begin without
    /// those that are a moment away.
    pub(crate) async fn read_first(tools: &Link) -> Result<Self, RpcError> {
        let began = Instant::now();
        let mut first = Self::read(tools).await?;
        while first.is_starting && began.elapsed() < LONGEST_START {
            let left = LONGEST_START.saturating_sub(began.elapsed());
            first = Self::read_after(tools, &first.digest, left).await?;
        }
        Ok(first)
    }

    /// The tools once their list has another digest, or after `wait`.
    async fn read_after(tools: &Link, known: &str, wait: Duration) -> Result<Self, RpcError> {
        let request = ListToolsRequest {
            known_digest: known.to_owned(),
            wait_ms: u32::try_from(wait.as_millis()).unwrap_or(u32::MAX),
        };
        let mut request = tonic::Request::new(request);
        request.set_timeout(wait + LONGEST_WAIT);
        let listed = ToolsServiceClient::new(tools.clone())
            .list_tools(request)
            .await?;
        Self::of(listed.into_inner())
    }

    fn of(listed: ListToolsResponse) -> Result<Self, RpcError> {
        let rules = compiled(listed.rules)?;
        let starting = ToolSourceState::Starting;
        let is_starting = listed.sources.iter().any(|it| it.state() == starting);
        let callable = listed.tools.into_iter();
        let callable = callable.filter(|tool| tool.disabled.is_empty());
        let mut tools: Vec<_> = callable
            .filter(|tool| !rules.always_deny(&tool.name, DEFAULT_AGENT))
            .collect();
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        let is_many = tools.len() > listed.offered as usize;
        let is_deferred =
            |tool: &ToolSpec| is_many && !ALWAYS_OFFERED.contains(&tool.source.as_str());
        let facts = tools
            .iter()
            .map(|tool| (tool.name.clone(), facts(tool, is_deferred(tool))));
        let mut catalogue = Self {
            facts: Arc::new(facts.collect()),
            digest: listed.digest,
            is_starting,
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
        catalogue.prompt = prompt(&offered);
        let state_tools = STATE_TOOLS.iter();
        let state_tools = state_tools.filter(|tool| is_many || tool.name != SEARCH_TOOLS);
        offered.extend(state_tools.map(|tool| OfferedTool {
            name: tool.name.to_owned(),
            description: tool.description.to_owned(),
            parameters_json: tool.parameters.to_owned(),
            effect: WireEffect::State.into(),
            is_allowed: true,
            ..OfferedTool::default()
        }));
        offered.sort_by(|a, b| a.name.cmp(&b.name));
        catalogue.rules = Arc::new(rules);
        catalogue.offer(offered);
        Ok(catalogue)
    }

    fn offer(&mut self, tools: Vec<OfferedTool>) {
        self.offered = Offered { tools };
        self.name = hex(&digest(&[&self.offered.encode_to_vec()]));
    }

    /// The part of it that an attempt is offered.
    pub(crate) fn only(&self, is_offered: impl Fn(&str) -> bool) -> Self {
        let facts = self.facts.iter().filter(|(name, _)| is_offered(name));
        let facts = facts.map(|(name, facts)| (name.clone(), facts.clone()));
        let mut only = Self {
            facts: Arc::new(facts.collect()),
            rules: self.rules.clone(),
            ..Self::default()
        };
        let tools = self.offered.tools.iter();
        only.offer(
            tools
                .filter(|tool| is_offered(&tool.name))
                .cloned()
                .collect(),
        );
        only
    }

    /// The part for turns that name no tools, which is made once: `is_offered` is the same for all of them.
    pub(crate) fn of_turns(&self, is_offered: impl Fn(&str) -> bool) -> Arc<Self> {
        let part = || Arc::new(self.only(is_offered));
        self.of_turns.get_or_init(part).clone()
    }
}

fn facts(tool: &ToolSpec, is_deferred: bool) -> ToolFacts {
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
        match Catalogue::read(&self.tools).await {
            Ok(catalogue) => self.set_catalogue(catalogue),
            Err(error) => tracing::warn!(%error, "catalogue of tools cannot be read"),
        }
    }
}

/// Keeps the catalogue of a dispatcher fresh, until stopped.
pub(crate) async fn refresh(dispatcher: Arc<Dispatcher>, stop: CancellationToken) {
    loop {
        let known = dispatcher.catalogue().digest.clone();
        let changed = Catalogue::read_after(&dispatcher.tools, &known, LONGEST_WAIT);
        let read = tokio::select! {
            () = stop.cancelled() => return,
            read = changed => read,
        };
        match read {
            Ok(catalogue) if catalogue.digest == known => {}
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
        "# Tools\n\nThe tools that there are, each with the JSON Schema of its arguments:\n"
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
mod tests {
    use super::*;

    #[test]
    fn a_planner_is_reported_every_tool_with_its_arguments() {
        let tool = |name: &str| OfferedTool {
            name: name.to_owned(),
            description: format!("Does {name}.\n- `fake`: no tool."),
            parameters_json: r#"{"type":"object"}"#.to_owned(),
            ..OfferedTool::default()
        };
        let text = prompt(&[tool("count"), tool("weigh")]);
        let lines: Vec<_> = text
            .lines()
            .skip_while(|line| !line.starts_with('-'))
            .collect();
        assert_eq!(
            lines,
            [
                "- `count`: Does count.",
                r#"  - `fake`: no tool. Arguments: `{"type":"object"}`"#,
                "- `weigh`: Does weigh.",
                r#"  - `fake`: no tool. Arguments: `{"type":"object"}`"#,
            ]
        );
        assert_eq!(prompt(&[]), "");
    }

    fn listed(servers: usize, each: usize) -> ListToolsResponse {
        let spec = |source: String, name: String| ToolSpec {
            name,
            source,
            effect: WireEffect::Pure.into(),
            parameters_json: r#"{"type":"object"}"#.to_owned(),
            default_answer: RuleAnswer::Allow.into(),
            ..ToolSpec::default()
        };
        let own = ["list_files", "read_file"].map(|name| spec("built-in".into(), name.into()));
        let of =
            |server| (0..each).map(move |n| spec(format!("s{server}"), format!("s{server}__t{n}")));
        ListToolsResponse {
            tools: own.into_iter().chain((0..servers).flat_map(of)).collect(),
            offered: 40,
            ..ListToolsResponse::default()
        }
    }

    #[test]
    fn tools_of_servers_are_deferred_once_there_are_many() {
        let few = Catalogue::of(listed(2, 19)).expect("rules");
        let is_search = |tool: &OfferedTool| tool.name == SEARCH_TOOLS;
        assert!(
            !few.offered
                .tools
                .iter()
                .any(|tool| tool.is_deferred || is_search(tool))
        );
        let many = Catalogue::of(listed(5, 40)).expect("rules");
        let offered = || many.offered.tools.iter();
        assert_eq!(offered().filter(|tool| tool.is_deferred).count(), 200);
        assert!(offered().any(is_search));
        assert!(offered().any(|tool| tool.name == "read_file" && !tool.is_deferred));
        let deferred = &many.facts["s0__t0"].deferred;
        assert!(deferred.is_some() && many.facts["read_file"].deferred.is_none());
    }

    #[test]
    fn a_tool_that_rules_may_stop_is_not_allowed_from_the_start() {
        let deny = ToolRule {
            tool: "s0__t0".to_owned(),
            answer: RuleAnswer::Deny.into(),
            ..ToolRule::default()
        };
        let ask = ToolRule {
            tool: "s0__t1".to_owned(),
            answer: RuleAnswer::Ask.into(),
            ..ToolRule::default()
        };
        let mut list = listed(1, 3);
        list.rules = vec![deny, ask];
        let catalogue = Catalogue::of(list).expect("rules");
        let allowed = |name: &str| {
            let tools = catalogue.offered.tools.iter();
            tools
                .filter(|tool| tool.name == name)
                .map(|tool| tool.is_allowed)
                .next()
        };
        assert_eq!(
            allowed("s0__t0"),
            None,
            "a tool that is always denied is not offered"
        );
        assert_eq!(allowed("s0__t1"), Some(false));
        assert_eq!(allowed("s0__t2"), Some(true));
    }
}
