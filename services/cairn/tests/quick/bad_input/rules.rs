//! What the contracts say of each field that clients send.

use prost_reflect::FieldDescriptor;

/// What a field may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// Nothing works without it.
    pub(crate) is_required: bool,
    /// Most bytes of a text.
    pub(crate) longest: usize,
    /// Greatest number.
    pub(crate) most: u64,
    /// What a text has to be.
    pub(crate) text: Text,
}

/// What a text has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Text {
    /// Whatever else is demanded.
    Any,
    /// The name of something that is there.
    Known,
    /// The id of a session that is there.
    Session,
    /// A JSON object; nothing stands for an empty one.
    Json,
    /// Of a form that no wrong text has by chance.
    Form,
}

const ANY: Rule = Rule {
    is_required: false,
    longest: usize::MAX,
    most: u64::MAX,
    text: Text::Any,
};

const fn text(longest: usize) -> Rule {
    Rule { longest, ..ANY }
}

const fn number(most: u64) -> Rule {
    Rule { most, ..ANY }
}

const fn required(rule: Rule) -> Rule {
    Rule {
        is_required: true,
        ..rule
    }
}

const fn must_be(text: Text, rule: Rule) -> Rule {
    Rule { text, ..rule }
}

const ID: Rule = text(128);
const KNOWN: Rule = must_be(Text::Known, ID);
const SESSION: Rule = must_be(Text::Session, ID);
const FORM: Rule = must_be(Text::Form, ANY);
const JSON: Rule = must_be(Text::Json, text(256 * 1024));
/// The session of the tests has one run and a few events.
const RUNS: Rule = number(1);
const EVENTS: Rule = number(1000);

/// The rule of a field. A field that is not known here fails the test: what it may have has to be
/// said.
pub(crate) fn of(field: &FieldDescriptor) -> Rule {
    let message = field.parent_message();
    match (message.name(), field.name()) {
        ("CreateSessionRequest" | "StartRunRequest", "session") => ID,
        ("ForkSessionRequest" | "ImportStart", "new_session") => ID,
        ("ImportSessionRequest", "start") => required(ANY),
        // As many events as the start says; so many are refused as a whole.
        ("ImportSessionRequest", "events" | "blobs") => ANY,
        ("ImportStart", "session") => required(ID),
        ("ImportStart", "last_seq") | ("ArchivedEvent", "event") => required(ANY),
        ("ArchivedEvent", "blob" | "ends") => ANY,
        ("ForkSessionRequest", "go_on" | "accept_loss") => ANY,
        ("ListPendingRequest" | "GetAgentContextRequest", "session") => SESSION,
        // To delete what is not there is no mistake.
        ("DeleteSessionRequest", "session") => required(ID),
        (_, "session") => required(SESSION),
        (_, "request_id") => required(ID),
        (_, "title") if message.name() == "PlanStep" => text(1024),
        ("PutPageRequest", "title") => required(text(256)),
        (_, "title") => text(256),
        (_, "time_to_live_ms") => number(315_360_000_000),
        (
            "ListSessionsRequest" | "ListAgentsRequest" | "ListPagesRequest" | "ListPromptsRequest",
            "page_size",
        ) => number(1000),
        ("ListSessionsRequest", "page_token") => FORM,
        ("ListSessionsRequest", "order" | "ascending") => ANY,
        (_, "filter") => ANY,
        ("SessionFilter", "statuses" | "pending" | "has_pending") => ANY,
        ("SessionFilter", "agent") => text(128),
        ("SessionFilter", "prefix") => text(800),
        ("SessionFilter", "changed_after_unix_ms" | "changed_before_unix_ms") => ANY,
        ("StartRunRequest", "run") => required(ANY),
        (_, "run") => RUNS,
        ("Deny", "reason") => text(48 * 1024),
        (_, "reason") => text(1024),
        (_, "at_seq") => EVENTS,
        // Another revision than the one in force, or a proposal or a step that is not there, is no
        // mistake of the request.
        ("ProposePlanRequest" | "ApplyPlanRequest", "expected_revision") => ANY,
        ("ApplyPlanRequest", "proposal" | "redo_step") => ANY,
        ("SkipStepRequest", "step") => required(ANY),
        // One of several that say what is wished for.
        ("ProposePlanRequest", "feedback") => text(64 * 1024),
        ("SendFeedbackRequest", "feedback") => required(text(64 * 1024)),
        ("ProposePlanRequest" | "ApplyPlanRequest", "plan") => ANY,
        // A position that the journal has not reached is waited for; a page may be as large as the
        // answer allows; deltas are there or not.
        (_, "after_seq" | "max_entries" | "with_deltas") => ANY,
        ("GetTreeRequest", "view") | ("ReleaseQuarantineRequest", "accept_loss") => ANY,
        ("GetPlanRequest", "with_resources") => ANY,
        ("DecideRequest", "pending_id" | "settlement") => required(ID),
        ("Settlement", _) => ANY,
        ("Done", "output") => text(48 * 1024),
        ("Answer", "text") => required(text(48 * 1024)),
        ("CallToolRequest" | "AllowToolRequest", "name") => required(text(128)),
        ("CallToolRequest", "arguments_json") => JSON,
        ("CallToolRequest", "approved") => ANY,
        ("AllowToolRequest", "digest") | ("RevokeApprovalRequest", "grant") => ANY,
        ("ApproveAlways", "when") | ("Condition", _) => ANY,
        // A scope that the call does not have is no mistake of the request.
        ("ApproveAlways", "scope") => text(8 * 1024),
        (_, "key") => required(ID),
        (_, "value") => text(64 * 1024),
        ("SetMemoryRequest", "metadata") => ANY,
        _ => of_run(field),
    }
}

fn of_run(field: &FieldDescriptor) -> Rule {
    match (field.parent_message().name(), field.name()) {
        // Without a plan it is required: see `faults`.
        ("StartRun", "goal") => text(64 * 1024),
        ("StartRun", "plan" | "limits" | "answers_questions") => ANY,
        ("StartRun" | "CreateContext" | "SwitchAgentRequest", "agent") => must_be(Text::Known, ANY),
        ("StartRun", "model") => ID,
        ("StartRun" | "PlanStep", "external_id") => text(128),
        ("StartRun" | "PlanStep", "note") => text(4 * 1024),
        ("StartRun", "trace_parent") => FORM,
        ("Plan", "order") => ANY,
        ("Plan", "steps") => required(ANY),
        ("PlanStep", "id") => ID,
        ("PlanStep", "description") => text(64 * 1024),
        ("PlanStep", "tool") => ANY,
        ("PlanStep", "depends_on") => KNOWN,
        // A step may wait for a resource that comes later. Most texts here are no names of capabilities.
        ("PlanStep", "capabilities") => text(64),
        // However often it was done again.
        ("PlanStep", "redo") => ANY,
        ("GetResultRequest", "handle") => required(must_be(Text::Known, text(64))),
        ("ToolInvocation", "name") => required(KNOWN),
        ("ToolInvocation", "arguments_json") => JSON,
        ("LimitOverrides", "max_tool_turns") => number(1_000),
        ("LimitOverrides", "max_turns") => number(100_000),
        ("LimitOverrides", "max_parallel_steps") => number(128),
        ("LimitOverrides", "max_own_revisions") => number(100),
        ("LimitOverrides", "on_failure" | "review_plan" | "at_limit") => ANY,
        ("LimitOverrides", "max_tokens") => number(1_000_000_000_000),
        ("LimitOverrides", "max_cost_nano_usd") => number(1_000_000_000_000_000),
        ("LimitOverrides", "max_active_ms") => number(31_536_000_000),
        ("LimitOverrides", "max_calls") => number(1_000_000),
        _ => of_context(field),
    }
}

fn of_turn(field: &FieldDescriptor) -> Rule {
    match (field.parent_message().name(), field.name()) {
        ("SubmitTurnRequest", "turn") => required(ANY),
        ("SubmitTurn", "model") => ID,
        ("SubmitTurn", "trace_parent") => FORM,
        ("SubmitTurn", "options" | "when_busy" | "answers_questions") => ANY,
        ("TurnOptions", "max_tool_turns") => number(1_000),
        ("TurnOptions", "max_turns") => number(100_000),
        ("TurnOptions", _) | ("ResponseFormat", "json_object") => ANY,
        ("ToolNames", "names") => text(64),
        ("ResponseFormat", "json_schema") => required(ANY),
        ("JsonSchema", "name") => required(text(64)),
        ("JsonSchema", "schema_json") => required(must_be(Text::Json, text(64 * 1024))),
        // What is not there is no mistake of the request.
        ("CancelTurnRequest", "number") | ("SendMessageRequest", "step") => ANY,
        _ => of_agent(field),
    }
}

fn of_agent(field: &FieldDescriptor) -> Rule {
    match (field.parent_message().name(), field.name()) {
        // The source may name the agent.
        ("PutAgentRequest", "name") => text(64),
        ("PutAgentRequest", "source") => required(text(64 * 1024)),
        ("GetAgentRequest" | "DeleteAgentRequest", "name") => {
            required(must_be(Text::Session, text(64)))
        }
        ("RenderPromptRequest", "name") => required(must_be(Text::Session, text(70))),
        ("RenderPromptRequest", "variables") => ANY,
        // Another digest than the present one is no mistake of the request.
        ("ConfirmWorkspaceFilesRequest", "digest") => required(ID),
        _ => of_pool(field),
    }
}

fn of_pool(field: &FieldDescriptor) -> Rule {
    match (field.parent_message().name(), field.name()) {
        ("PutResourceRequest", "id" | "kind") => required(text(64)),
        // What is not registered is no mistake of the request.
        ("RemoveResourceRequest", "id") => required(text(64)),
        ("PutResourceRequest", "capabilities" | "labels") => ANY,
        ("PutResourceRequest", "slots") => number(10_000),
        ("ResourceCapability", "name") => required(text(64)),
        ("ResourceCapability", "level") => number(1_000_000),
        (_, "tool") => required(text(64)),
        // One of both names whose tool it is.
        ("GrantToolRequest" | "RevokeToolRequest", "agent" | "executor") => text(110),
        // A run without a step has a context, too.
        ("GetAgentContextRequest", "step") => ANY,
        _ => of_hook(field),
    }
}

fn of_hook(field: &FieldDescriptor) -> Rule {
    match (field.parent_message().name(), field.name()) {
        ("GetHookRequest" | "DeleteHookRequest", "name") => {
            required(must_be(Text::Session, text(64)))
        }
        ("PutHookRequest", "hook") | ("HookDefinition", "points") => required(ANY),
        ("HookDefinition", "name") => required(text(64)),
        ("HookDefinition", "url") => required(FORM),
        ("HookDefinition", "agents" | "tools" | "timeout" | "on_error") => ANY,
        ("HookPatterns", "patterns") | ("Duration", _) => ANY,
        _ => of_knowledge(field),
    }
}

fn of_knowledge(field: &FieldDescriptor) -> Rule {
    match (field.parent_message().name(), field.name()) {
        // Without one it is made from the request_id.
        ("PutPageRequest", "id") => ID,
        // Pages of many ids are made here, so that a wrong one may be there.
        ("GetPageRequest" | "DeletePageRequest", "id") => required(ID),
        ("PutPageRequest", "text") => required(text(200 * 1024)),
        ("PutPageRequest" | "SearchPagesRequest", "tags") => text(64),
        ("SearchPagesRequest", "query") => required(text(4 * 1024)),
        ("SearchPagesRequest", "max") => number(100),
        ("SearchPagesRequest", "min_score") => ANY,
        (message, name) => panic!("what may {message}.{name} have?"),
    }
}

fn of_context(field: &FieldDescriptor) -> Rule {
    let name = text(64);
    match (field.parent_message().name(), field.name()) {
        // Without one the context is sent as it stands.
        ("SubmitTurn", "message") => ANY,
        ("CreateContextRequest" | "DestroyContextRequest", "context") => required(ANY),
        ("SwitchContextRequest", "context") => required(name),
        ("SetModeRequest", "mode") => required(ANY),
        // Contexts of any name are made here, so that a wrong one may be there.
        (_, "context") => name,
        ("BridgeContextRequest", "bridge") | ("CompactContextRequest", "compact") => required(ANY),
        ("CompactContext", "keep") => ANY,
        ("CompactContext", "prompt" | "keep_in_mind") => text(16 * 1024),
        ("CompactContext", "model") => ID,
        ("CompactContext", "trace_parent") => FORM,
        (_, "when_full") => ANY,
        ("UpdateContextRequest" | "WindowChange", "window") => ANY,
        ("BridgeContext", "from" | "to") => name,
        ("BridgeContext", "values") => ANY,
        ("DestroyContext", "conclusions" | "ask_model") => ANY,
        ("CreateContext", "name") => required(name),
        ("CreateContext", "system_prompt" | "immutable" | "window") => ANY,
        ("Window", "messages") => required(ANY),
        ("SetWindowRequest", "window") => ANY,
        ("RemoveMessageRequest", "count") => number(1000),
        (_, "message" | "role" | "parts") => required(ANY),
        ("ExtendMessagesRequest", "messages") => ANY,
        // A message of a person has none of these but text.
        ("Part" | "ToolCall" | "ToolResult" | "Media" | "Opaque", _) => ANY,
        // What is not there is no mistake of the request.
        (_, "index" | "expected_version") => ANY,
        ("ImportContextRequest", "jsonl" | "preserve_reasoning") => ANY,
        ("ListMessagesRequest", "zone" | "in_window") => ANY,
        (_, "page_size") => number(200),
        (_, "page_token") => FORM,
        _ => of_turn(field),
    }
}
