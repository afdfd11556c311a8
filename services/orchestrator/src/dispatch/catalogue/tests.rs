use super::*;
use cairn_engine::agent::AgentDefinition;
use cairn_engine::pool::{Grant, Grants, ResourceTools};
use cairn_engine::rules::SHELL_TOOL;
use cairn_engine::session::Agent;
use cairn_proto::event::Condition;
use cairn_proto::tools::tools_service_server::{ToolsService, ToolsServiceServer};
use cairn_proto::tools::{
    AllowToolRequest, AllowToolResponse, CancelCallRequest, CancelCallResponse, Capability,
    ConfirmWorkspaceFilesRequest, ConfirmWorkspaceFilesResponse, InvokeToolRequest,
    InvokeToolResponse, PreviewToolRequest, PreviewToolResponse, ReadSkillFileRequest,
    ReadSkillFileResponse, ReadWorkspaceFilesRequest, ReadWorkspaceFilesResponse,
};
use cairn_rpc::{Exposure, ServerBuilder};
use futures::stream::Empty;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::time::Instant;
use tonic::{Request, Response, Status};

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

/// Tools of a list without servers, with the one of executors.
const OWN: usize = 3;

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
    let few = Catalogue::of(listed(2, 19), &Catalogue::default()).expect("rules");
    let is_search = |tool: &OfferedTool| tool.name == SEARCH_TOOLS;
    assert!(
        !few.offered
            .tools
            .iter()
            .any(|tool| tool.is_deferred || is_search(tool))
    );
    let many = Catalogue::of(listed(5, 40), &Catalogue::default()).expect("rules");
    let offered = || many.offered.tools.iter();
    assert_eq!(offered().filter(|tool| tool.is_deferred).count(), 200);
    assert!(offered().any(is_search));
    assert!(offered().any(|tool| tool.name == "read_file" && !tool.is_deferred));
    let deferred = &many.facts["s0__t0"].deferred;
    assert!(deferred.is_some() && many.facts["read_file"].deferred.is_none());
}

/// A search that can find nothing would only take a turn of the model.
#[test]
fn a_part_without_tools_to_find_has_no_search() {
    let many = Catalogue::of(listed(5, 40), &Catalogue::default()).expect("rules");
    let has_search = |is_offered: &dyn Fn(&str) -> bool| {
        let part = many.only(PartOf::plain(), is_offered);
        part.offered
            .tools
            .iter()
            .any(|tool| tool.name == SEARCH_TOOLS)
    };
    assert!(has_search(&|_| true));
    assert!(!has_search(
        &|name| !name.starts_with('s') || name == SEARCH_TOOLS
    ));
}

#[test]
fn commands_are_offered_where_a_person_or_a_rule_may_allow_them() {
    let with_shell = |rules: Vec<ToolRule>| {
        let shell = ToolSpec {
            name: SHELL_TOOL.to_owned(),
            source: "built-in".to_owned(),
            parameters_json: "{}".to_owned(),
            default_answer: RuleAnswer::Ask.into(),
            ..ToolSpec::default()
        };
        let mut listed = listed(1, 1);
        listed.tools.push(shell);
        listed.rules = rules;
        Catalogue::of(listed, &Catalogue::default()).expect("rules")
    };
    let is_offered = |catalogue: &Catalogue, of: PartOf<'_>| {
        let part = catalogue.part(of, Use::Turn, |_| true);
        let is_listed = part.offered.tools.iter().any(|it| it.name == SHELL_TOOL);
        assert_eq!(part.facts.contains_key(SHELL_TOOL), is_listed);
        is_listed
    };
    let catalogue = with_shell(Vec::new());
    let followed = PartOf::plain().followed();
    assert!(!is_offered(&catalogue, PartOf::plain()));
    assert!(is_offered(&catalogue, followed), "the other part was kept");
    let allow = ToolRule {
        tool: SHELL_TOOL.to_owned(),
        when: vec![Condition {
            name: "command".to_owned(),
            pattern: "cargo test".to_owned(),
        }],
        answer: RuleAnswer::Allow.into(),
        ..ToolRule::default()
    };
    assert!(is_offered(&with_shell(vec![allow]), PartOf::plain()));
}

#[test]
fn a_tool_of_a_server_has_the_digest_of_its_settings() {
    let source = |name: &str, digest: &str| ToolSource {
        name: name.to_owned(),
        digest: digest.to_owned(),
        ..ToolSource::default()
    };
    let listed = ListToolsResponse {
        sources: vec![source("built-in", ""), source("s0", "0a1b")],
        ..listed(2, 1)
    };
    let catalogue = Catalogue::of(listed, &Catalogue::default()).expect("rules");
    let expected = ToolServer {
        name: "s0".to_owned(),
        digest: "0a1b".to_owned(),
    };
    assert_eq!(catalogue.facts["s0__t0"].server, Some(expected));
    assert_eq!(catalogue.facts["read_file"].server, None);
    assert_eq!(catalogue.facts["s1__t0"].server, None, "no such source");
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
    let catalogue = Catalogue::of(list, &Catalogue::default()).expect("rules");
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

/// Rules with an agent are for that one alone, and definitions only take away.
#[test]
fn a_part_has_what_rules_and_definition_leave_to_its_agent() {
    let rule = |tool: &str, agent: &str, answer: RuleAnswer| ToolRule {
        tool: tool.to_owned(),
        agent: agent.to_owned(),
        answer: answer.into(),
        ..ToolRule::default()
    };
    let mut list = listed(1, 3);
    list.rules = vec![
        rule("s0__t0", "", RuleAnswer::Deny),
        rule("s0__t1", "reviewer", RuleAnswer::Deny),
        rule("s0__t2", "reviewer", RuleAnswer::Ask),
        rule("read_file", "default", RuleAnswer::Deny),
    ];
    let catalogue = Catalogue::of(list, &Catalogue::default()).expect("rules");
    let callable: Vec<&str> = catalogue.facts.keys().map(String::as_str).collect();
    let expected = "code_generation_tool list_files read_file s0__t1 s0__t2";
    assert_eq!(callable.join(" "), expected);
    let definition = AgentDefinition {
        asked: vec!["list_files".to_owned()],
        ..AgentDefinition::named("reviewer")
    };
    let agent = Agent::new(Arc::new(definition), String::new());
    let only = AgentDefinition {
        tools: Some(vec!["s0__*".to_owned()]),
        ..AgentDefinition::named("other")
    };
    let other = Agent::new(Arc::new(only), String::new());
    for (of, offered, allowed) in [
        (
            PartOf::plain(),
            vec!["list_files", "s0__t1", "s0__t2"],
            vec!["list_files", "s0__t1", "s0__t2"],
        ),
        (
            PartOf::agent(&agent),
            vec!["list_files", "read_file", "s0__t2"],
            vec!["read_file"],
        ),
        (
            PartOf::agent(&other),
            vec!["s0__t1", "s0__t2"],
            vec!["s0__t1", "s0__t2"],
        ),
    ] {
        let part = catalogue.part(of, Use::Step, |_| true);
        let tools = part.offered.tools.iter();
        let is_of_list = |name: &str| part.facts.contains_key(name) && name != CODE_GENERATION;
        let tools = tools.filter(|tool| is_of_list(&tool.name));
        let found: Vec<&str> = tools.clone().map(|tool| tool.name.as_str()).collect();
        assert_eq!(found, offered, "{of:?}");
        let tools = tools.filter(|tool| tool.is_allowed);
        let found: Vec<&str> = tools.map(|tool| tool.name.as_str()).collect();
        assert_eq!(found, allowed, "{of:?}");
        // Rules say nothing of the session's own tools.
        assert!(part.offered.tools.iter().any(|tool| tool.name == "step"));
        assert!(Arc::ptr_eq(&part, &catalogue.part(of, Use::Step, |_| true)));
        let planned = catalogue.of_plans(of);
        let planned: Vec<&str> = planned.facts.keys().map(String::as_str).collect();
        assert_eq!(planned, offered, "{of:?}");
    }
}

/// The names of the tools that a part offers beside state tools.
fn offered(part: &Catalogue) -> Vec<&str> {
    let tools = part.offered.tools.iter();
    let tools = tools.filter(|tool| part.facts.contains_key(&tool.name));
    tools.map(|tool| tool.name.as_str()).collect()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn a_part_has_what_operators_grant_and_what_its_executor_may_use() {
    let catalogue = Catalogue::of(listed(1, 2), &Catalogue::default()).expect("rules");
    let definition = AgentDefinition {
        tools: Some(vec!["read_file".to_owned()]),
        denied: vec!["s0__t1".to_owned()],
        ..AgentDefinition::named("reviewer")
    };
    let agent = Agent::new(Arc::new(definition), String::new());
    let grant = Grant {
        granted: names(&["s0__t0", "s0__t1"]),
        revoked: names(&["read_file", "step"]),
    };
    let grants = Grants(BTreeMap::from([("reviewer".to_owned(), grant)]));
    let part = |of: PartOf<'_>| catalogue.part(of, Use::Step, |_| true);
    let reviewer = PartOf::agent(&agent);
    assert_eq!(offered(&part(reviewer)), ["read_file"]);
    // What a definition denies is not granted, and the part before is another one.
    assert_eq!(offered(&part(reviewer.granted(&grants))), ["s0__t0"]);
    let patterns = vec!["s0__*".to_owned()];
    let tools = ResourceTools::new(patterns, names(&["list_files"]), names(&["s0__t1"]));
    let plain = PartOf::plain().in_executor(&tools);
    let part = part(plain);
    assert_eq!(offered(&part), ["list_files", "s0__t0"]);
    // No pattern is about the session's own tools.
    assert!(part.offered.tools.iter().any(|tool| tool.name == "step"));
}

/// Each is made once, and one with other tools has another name.
#[test]
fn a_part_with_something_to_retrieve_is_another_one() {
    let catalogue = Catalogue::of(listed(1, 1), &Catalogue::default()).expect("rules");
    let of = PartOf::plain();
    let without = || catalogue.part(of, Use::Turn, |tool| tool != "retrieve");
    let with = || catalogue.part(of.with_knowledge(true), Use::Turn, |_| true);
    let has = |part: &Catalogue| {
        let mut tools = part.offered.tools.iter();
        tools.any(|tool| tool.name == "retrieve")
    };
    assert_eq!((has(&without()), has(&with())), (false, true));
    assert_ne!(without().name, with().name);
    assert!(Arc::ptr_eq(&with(), &with()));
}

#[test]
fn code_is_written_by_an_executor_unless_rules_deny_it() {
    let catalogue = Catalogue::of(listed(0, 0), &Catalogue::default()).expect("rules");
    let part = catalogue.part(PartOf::plain(), Use::Step, |_| true);
    let mut tools = part.offered.tools.iter();
    let tool = tools.find(|tool| tool.name == CODE_GENERATION);
    let tool = tool.expect("it is offered");
    assert_eq!(tool.effect(), WireEffect::Pure);
    assert!(!tool.is_allowed, "each call takes of the budgets");
    assert_eq!(part.facts[CODE_GENERATION].digest, tool.digest);
    assert!(serde_json::from_str::<serde_json::Value>(&tool.parameters_json).is_ok());
    assert!(!offered(&catalogue.of_plans(PartOf::plain())).contains(&CODE_GENERATION));
    let mut denied = listed(0, 0);
    denied.rules = vec![ToolRule {
        tool: CODE_GENERATION.to_owned(),
        answer: RuleAnswer::Deny.into(),
        ..ToolRule::default()
    }];
    let denied = Catalogue::of(denied, &Catalogue::default()).expect("rules");
    assert!(!denied.facts.contains_key(CODE_GENERATION));
}

#[test]
fn a_capability_is_usable_if_all_its_tools_are_there() {
    let row = |name: &str, tools: &[&str]| Capability {
        name: name.to_owned(),
        tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
        level: 0,
    };
    let mut listed = ListToolsResponse {
        capabilities: vec![
            row("web_search", &["web_search"]),
            row("file_ops", &["list_files", "read_file"]),
            row("code_generation", &[CODE_GENERATION]),
            row("tracker", &["s0__t0", "s0__t1"]),
            row("progress", &["step", "s0__t0"]),
        ],
        ..of_replica(ToolSourceState::Ready, 2)
    };
    listed.sources[0].digest = "0a1b".to_owned();
    let catalogue = Catalogue::of(listed, &Catalogue::default()).expect("rules");
    let pool = &catalogue.pool;
    assert_eq!(pool.table.len(), 5);
    assert!(pool.table.iter().all(|row| row.level == 1));
    let usable: Vec<&str> = pool.usable.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(
        usable,
        ["file_ops", "code_generation", "tracker", "progress"]
    );
    let [server] = &pool.servers[..] else {
        panic!("{:?}", pool.servers);
    };
    assert!(server.is_ready && server.name == "s0");
    let has: Vec<&str> = server.capabilities.keys().map(String::as_str).collect();
    assert_eq!(has, ["tracker"], "the other one has a tool of the session");
}

/// The list of a replica that has the server `s0` in this state, with so many tools of it.
fn of_replica(state: ToolSourceState, tools: usize) -> ListToolsResponse {
    ListToolsResponse {
        sources: vec![ToolSource {
            name: "s0".to_owned(),
            state: state.into(),
            problem: "it ended".to_owned(),
            ..ToolSource::default()
        }],
        digest: format!("{state:?} {tools}"),
        ..listed(usize::from(tools > 0), tools)
    }
}

/// A prompt cache is lost with each other name, and a call of a tool that is gone fails.
#[test]
fn a_replica_that_cannot_reach_a_server_changes_nothing_that_models_are_offered() {
    use ToolSourceState::{NotAllowed, Ready, Starting, Unreachable};
    let reaching = || of_replica(Ready, 3);
    let first = Catalogue::of(reaching(), &Catalogue::default()).expect("rules");
    let mut last = Catalogue::of(reaching(), &first).expect("rules");
    for state in [Unreachable, Starting, Ready, Unreachable] {
        let tools = if state == Ready { 3 } else { 0 };
        last = Catalogue::of(of_replica(state, tools), &last).expect("rules");
        assert_eq!(last.name, first.name, "{state:?}");
        assert_eq!(last.facts, first.facts, "{state:?}");
        assert!(last.away.is_empty(), "{:?}", last.away);
    }
    // One that is known to have no tools, or is not to be called, is not filled in.
    for (state, tools) in [(NotAllowed, 0), (Ready, 0), (Ready, 1)] {
        let other = Catalogue::of(of_replica(state, tools), &last).expect("rules");
        assert_eq!(other.facts.len(), OWN + tools, "{state:?}");
    }
    let without = Catalogue::of(listed(0, 0), &last).expect("rules");
    assert_eq!(
        without.facts.len(),
        OWN,
        "the settings no longer have the server"
    );
}

#[test]
fn a_server_whose_tools_are_not_known_is_named_with_the_reason() {
    use ToolSourceState::{NotAllowed, Ready, Starting, Unreachable};
    for (state, why) in [
        (Unreachable, Some("it ended")),
        (NotAllowed, Some("it ended")),
        (Starting, Some("is being started")),
        (Ready, None),
    ] {
        let list = of_replica(state, 0);
        let catalogue = Catalogue::of(list, &Catalogue::default()).expect("rules");
        let away = catalogue.away.first();
        assert_eq!(away.map(|it| &*it.prefix), why.map(|_| "s0__"), "{state:?}");
        let says = away.map(|it| it.why.clone()).unwrap_or_default();
        assert!(says.contains(why.unwrap_or_default()), "{state:?}: {says}");
    }
}

/// A tools service of which each list is made by the test.
struct Listing(Box<dyn Fn() -> ListToolsResponse + Send + Sync>);

#[tonic::async_trait]
impl ToolsService for Listing {
    type InvokeToolStream = Empty<Result<InvokeToolResponse, Status>>;

    async fn list_tools(
        &self,
        _: Request<ListToolsRequest>,
    ) -> Result<Response<ListToolsResponse>, Status> {
        Ok(Response::new((self.0)()))
    }

    async fn invoke_tool(
        &self,
        _: Request<InvokeToolRequest>,
    ) -> Result<Response<Self::InvokeToolStream>, Status> {
        Err(Status::unimplemented("no tool is called"))
    }

    async fn preview_tool(
        &self,
        _: Request<PreviewToolRequest>,
    ) -> Result<Response<PreviewToolResponse>, Status> {
        Err(Status::unimplemented("no write is previewed"))
    }

    async fn cancel_call(
        &self,
        _: Request<CancelCallRequest>,
    ) -> Result<Response<CancelCallResponse>, Status> {
        Err(Status::unimplemented("no call is interrupted"))
    }

    async fn allow_tool(
        &self,
        _: Request<AllowToolRequest>,
    ) -> Result<Response<AllowToolResponse>, Status> {
        Err(Status::unimplemented("no tool is allowed"))
    }

    async fn read_workspace_files(
        &self,
        _: Request<ReadWorkspaceFilesRequest>,
    ) -> Result<Response<ReadWorkspaceFilesResponse>, Status> {
        Ok(Response::new(ReadWorkspaceFilesResponse::default()))
    }

    async fn confirm_workspace_files(
        &self,
        _: Request<ConfirmWorkspaceFilesRequest>,
    ) -> Result<Response<ConfirmWorkspaceFilesResponse>, Status> {
        Err(Status::unimplemented("the workspace has no files"))
    }

    async fn read_skill_file(
        &self,
        _: Request<ReadSkillFileRequest>,
    ) -> Result<Response<ReadSkillFileResponse>, Status> {
        Err(Status::unimplemented("the workspace has no files"))
    }
}

async fn first_of(list: impl Fn() -> ListToolsResponse + Send + Sync + 'static) -> Catalogue {
    first_with(None, list).await
}

async fn first_with(
    notice: Option<fn(&str)>,
    list: impl Fn() -> ListToolsResponse + Send + Sync + 'static,
) -> Catalogue {
    let service = ToolsServiceServer::new(Listing(Box::new(list)));
    let server = ServerBuilder::new(Exposure::Internal).register(service, cairn_proto::DESCRIPTORS);
    let server = server.build().await.expect("a server");
    let read = Catalogue::read_first(&server.link(), notice).await;
    read.expect("a list")
}

/// The tools service ends the start of a server after its `start_ms`, and nothing else ends the wait.
#[tokio::test(start_paused = true)]
async fn the_first_reading_has_the_tools_of_a_server_that_starts_slowly() {
    let until = Instant::now() + Duration::from_secs(20);
    let first = first_of(move || match Instant::now() < until {
        true => of_replica(ToolSourceState::Starting, 0),
        false => of_replica(ToolSourceState::Ready, 3),
    });
    let first = first.await;
    assert!(first.facts.contains_key("s0__t0"), "{:?}", first.away);
}

/// What a person is shown in the test of that.
static SHOWN: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn show(line: &str) {
    SHOWN.lock().expect("lines").push(line.to_owned());
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_server_that_is_given_up_is_shown() {
    let until = Instant::now() + Duration::from_secs(20);
    let first = first_with(Some(show), move || match Instant::now() < until {
        true => of_replica(ToolSourceState::Starting, 0),
        false => of_replica(ToolSourceState::Unreachable, 0),
    });
    assert_eq!(first.await.away.len(), 1);
    let expected = [
        "waiting for servers of tools to start: s0; each may take its start_ms",
        "server 's0' cannot be reached: it ended; the work begins without its tools",
    ];
    assert_eq!(*SHOWN.lock().expect("lines"), expected);
    // One that fails at once, or is there in time, is not worth a line.
    SHOWN.lock().expect("lines").clear();
    first_with(Some(show), || of_replica(ToolSourceState::Unreachable, 0)).await;
    first_with(Some(show), || of_replica(ToolSourceState::Ready, 3)).await;
    assert!(SHOWN.lock().expect("lines").is_empty());
}

/// The server is reached by one of two replicas, which answer in turn, and one that nobody reaches ends the
/// wait.
#[tokio::test(start_paused = true)]
async fn the_first_reading_asks_the_other_replicas_for_a_server_that_one_cannot_reach() {
    let asked = AtomicU32::new(0);
    let first = first_of(move || match asked.fetch_add(1, Ordering::SeqCst) {
        0 | 2 => of_replica(ToolSourceState::Unreachable, 0),
        1 => of_replica(ToolSourceState::Starting, 0),
        _ => of_replica(ToolSourceState::Ready, 3),
    });
    let first = first.await;
    assert!(first.facts.contains_key("s0__t0"), "{:?}", first.away);
    let none = first_of(|| of_replica(ToolSourceState::Unreachable, 0)).await;
    assert_eq!(none.away.len(), 1);
}
