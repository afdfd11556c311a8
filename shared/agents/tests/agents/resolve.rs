//! A file of a workspace takes rights away and never gives one, whatever it and the stored agent say.

use crate::{answer, answer_of};
use cairn_agents::agent::{AgentFile, Mode};
use cairn_agents::resolve::{
    File, FileKind, OF_WORKSPACE, Unusable, Workspace, resolve, workspace,
};
use cairn_agents::{AgentBudgets, CairnFields, Tools};
use cairn_engine::agent::AgentDefinition;
use cairn_engine::command::RunLimits;
use cairn_engine::event::Budget;
use cairn_engine::session::PerBudget;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// Tools of which the patterns below have some.
const TOOLS: [&str; 7] = [
    "read_file",
    "write_file",
    "shell_exec",
    "github__list",
    "github__drop",
    "notes__add",
    "delegate",
];
const PATTERNS: &[&str] = &[
    "*",
    "read_file",
    "write_file",
    "shell_exec",
    "github__*",
    "github__drop",
    "*__add",
    "notes__?dd",
    "{read,write}_file",
    "[!r]*",
];
const MODELS: &[&str] = &["small", "large", "gone"];
const SKILLS: &[&str] = &["pdf", "tex"];
const PROMPTS: &[&str] = &["", "P", "Q"];
const MODES: &[Mode] = &[Mode::All, Mode::All, Mode::Primary, Mode::Subagent];

fn patterns() -> impl Strategy<Value = Vec<String>> {
    vec(select(PATTERNS).prop_map(str::to_owned), 0..4)
}

fn tools() -> impl Strategy<Value = Tools> {
    option::of(patterns()).prop_map(|only| only.map_or(Tools::All, Tools::Only))
}

fn budgets() -> impl Strategy<Value = AgentBudgets> {
    let of = || option::of(1_u64..100);
    (of(), of(), of(), of()).prop_map(|(tokens, cost_nano_usd, time_ms, calls)| AgentBudgets {
        tokens,
        cost_nano_usd,
        time_ms,
        calls,
    })
}

prop_compose! {
    fn agents()(
        tools in tools(),
        denied in patterns(),
        ask in patterns(),
        model in vec(select(MODELS).prop_map(str::to_owned), 0..3),
        max_turns in option::of(1_u32..100),
        max_tool_turns in option::of(0_u32..20),
        budgets in budgets(),
        skills in option::of(vec(select(SKILLS).prop_map(str::to_owned), 0..3)),
        mode in select(MODES),
        is_disabled in proptest::bool::weighted(0.1),
        prompt in select(PROMPTS),
    ) -> AgentFile {
        AgentFile {
            prompt: prompt.to_owned(),
            tools,
            denied,
            ask,
            model,
            max_turns,
            max_tool_turns,
            mode,
            is_disabled,
            skills,
            cairn: CairnFields { budgets, ..CairnFields::default() },
            ..AgentFile::named("a")
        }
    }
}

prop_compose! {
    fn settings()(
        max_tool_turns in 0_u32..20,
        budgets in [0_u64..100, 0_u64..100, 0_u64..100, 0_u64..100, 0_u64..100],
    ) -> RunLimits {
        let mut budgets = budgets.into_iter();
        RunLimits {
            max_tool_turns,
            budgets: PerBudget::of(|_| budgets.next().unwrap_or_default()),
            ..RunLimits::default()
        }
    }
}

/// Two skills, and one agent if there is a file.
fn of_workspace(agent: Option<&AgentFile>) -> Workspace {
    let skill = |name: &str| File {
        path: format!("skills/{name}/SKILL.md"),
        kind: FileKind::Skill,
        text: format!("---\nname: {name}\ndescription: D\n---\nB"),
        digest: name.to_owned(),
    };
    Workspace {
        agents: agent
            .into_iter()
            .map(|agent| (agent.name.clone(), agent.clone()))
            .collect(),
        ..workspace(&SKILLS.iter().copied().map(skill).collect::<Vec<_>>())
    }
}

fn has_model(model: &str) -> bool {
    model != "gone"
}

fn said(definition: &AgentDefinition, tool: &str) -> cairn_engine::rules::Answer {
    let only = definition.tools.as_deref();
    answer_of(only, &definition.denied, &definition.asked, tool)
}

/// The limits that hold for a run of the agent; none for no limit.
fn effective(definition: &AgentDefinition, settings: &RunLimits) -> [Option<u64>; 6] {
    let limits = &definition.limits;
    let set = |budget: Budget| Some(settings.budgets[budget]).filter(|most| *most > 0);
    let max_tool_turns = limits.max_tool_turns.unwrap_or(settings.max_tool_turns);
    [
        Some(u64::from(max_tool_turns)),
        limits.max_turns.map(u64::from).or(set(Budget::Turns)),
        limits.tokens.or(set(Budget::Tokens)),
        limits.cost_nano_usd.or(set(Budget::Cost)),
        limits.time_ms.or(set(Budget::Time)),
        limits.calls.map(u64::from).or(set(Budget::Calls)),
    ]
}

/// Fails if a limit is higher than it was, or is there no more.
fn check_limits(
    narrow: &AgentDefinition,
    wide: &AgentDefinition,
    settings: &RunLimits,
) -> Result<(), TestCaseError> {
    let (narrow, wide) = (effective(narrow, settings), effective(wide, settings));
    for (narrow, wide) in narrow.into_iter().zip(wide) {
        let most = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
        prop_assert!(most(narrow) <= most(wide), "{narrow:?} {wide:?}");
    }
    Ok(())
}

fn skills(definition: &AgentDefinition) -> Vec<&str> {
    let skills = definition.skills.iter();
    skills.map(|skill| skill.name.as_str()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(1024)
    })]

    #[test]
    fn a_file_widens_nothing_of_a_stored_agent(
        document in agents(),
        file in agents(),
        settings in settings(),
    ) {
        let (with, without) = (of_workspace(Some(&file)), of_workspace(None));
        let of = |workspace: &Workspace| {
            resolve("a", Some(&document), Some(workspace), &settings, &has_model)
        };
        let (narrow, wide) = match (of(&with), of(&without)) {
            (Ok(narrow), Ok(wide)) => (narrow, wide),
            (Ok(narrow), Err(error)) => panic!("{narrow:?} in spite of {error}"),
            (Err(error), _) => {
                prop_assert!(matches!(error, Unusable::Disabled | Unusable::OnlyForAgents));
                return Ok(());
            }
        };
        for tool in TOOLS {
            let strictest = answer(&document, tool).max(answer(&file, tool));
            prop_assert!(said(&narrow, tool) >= strictest, "{} {:?}", tool, narrow);
            prop_assert_eq!(said(&wide, tool), answer(&document, tool));
        }
        check_limits(&narrow, &wide, &settings)?;
        prop_assert_eq!(&narrow.name, "a");
        prop_assert_eq!(&narrow.prompt, &document.prompt);
        prop_assert_eq!(&narrow.model, &wide.model);
        prop_assert!(skills(&narrow).iter().all(|it| skills(&wide).contains(it)));
    }

    #[test]
    fn a_file_alone_has_no_more_than_the_settings(file in agents(), settings in settings()) {
        let workspace = of_workspace(Some(&file));
        let of = |name: &str| resolve(name, None, Some(&workspace), &settings, &has_model);
        let definition = match of("a") {
            Ok(definition) => definition,
            Err(error) => {
                let is_refused = file.is_disabled || file.mode == Mode::Subagent;
                prop_assert!(is_refused, "{}", error);
                return Ok(());
            }
        };
        prop_assert_eq!(&of("workspace:a"), &Ok(definition.clone()));
        prop_assert_eq!(&definition.name, &format!("{OF_WORKSPACE}a"));
        for tool in TOOLS {
            prop_assert_eq!(said(&definition, tool), answer(&file, tool));
        }
        let plain = of("").unwrap();
        check_limits(&definition, &plain, &settings)?;
        prop_assert!(definition.model.is_empty() || has_model(&definition.model));
        prop_assert_eq!(plain.tools, None);
        prop_assert_eq!(plain.prompt, "");
    }
}
