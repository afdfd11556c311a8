//! Every flag that takes a value, with values that it may not have.
//!
//! The flags are found by walking the definition of the command line, so one without a case fails
//! the test.

use crate::support::CAIRN;
use cairn::cli::Cli;
use cairn_rpc::text::is_hidden;
use cairn_testkit::Site;
use clap::{Arg, Command, CommandFactory as _};
use std::collections::BTreeSet;

/// Stands for a text that is longer than any flag takes.
const LONG: &str = "<long>";

/// The flag; then commands that use it wrongly, each with the exit code and what is named.
type Case = (&'static str, &'static [(&'static str, i32, &'static str)]);

#[rustfmt::skip]
const CASES: [Case; 127] = [
    ("--store", &[("sessions --store=", 2, "--store"), ("sessions --store docs", 1, "docs")]),
    ("--in", &[("run --in nowhere x", 1, "nowhere"), ("run --in= x", 2, "--in"), ("run --in plan.json x", 1, "plan.json"),
        ("chat s --in=", 2, "--in"), ("chat s --in nowhere", 1, "nowhere"),
        ("resume --in= s", 2, "--in"), ("resume --in nowhere s", 1, "nowhere"),
        ("serve --in=", 2, "--in"), ("serve --in nowhere --listen 127.0.0.1:0", 1, "nowhere")]),
    ("--server", &[("sessions --server nowhere", 2, "--server"), ("sessions --server=", 2, "--server")]),
    ("--config", &[("sessions --config none.toml", 2, "none.toml"), ("sessions --config docs", 2, "docs")]),
    ("--log", &[("sessions --log loud", 2, "--log"), ("sessions --log=", 2, "--log")]),
    ("--color", &[("sessions --color red", 2, "--color"), ("sessions --color=", 2, "--color")]),
    ("run --plan", &[("run --plan none.json", 2, "none.json"), ("run --plan docs/one.md", 2, "docs/one.md"),
        ("run --plan docs", 2, "docs")]),
    ("run --model", &[("run --model nobody x", 2, "--model"), ("run --model= x", 2, "--model")]),
    ("run --agent", &[("run --agent nobody x", 1, "nobody"), ("run --agent= x", 2, "--agent")]),
    ("run --mode", &[("run --mode odd x", 2, "--mode"), ("run --mode= x", 2, "--mode"),
        ("run --mode plan --request-id r x", 2, "--session")]),
    ("run --keep", &[("run --keep soon x", 2, "--keep"), ("run --keep=-1s x", 2, "--keep"), ("run --keep 1ms x", 2, "--keep")]),
    ("run --pace", &[("run --pace slow x", 2, "--pace"), ("run --pace=-1s x", 2, "--pace"), ("run --pace 1d x", 2, "--pace")]),
    ("run --session", &[("run --session= x", 2, "session"), ("run --session ../up x", 2, "session"),
        ("run --session <long> x", 2, "session")]),
    ("run --request-id", &[("run --request-id= x", 2, "--request-id"), ("run --request-id ü x", 2, "--request-id"),
        ("run --request-id <long> x", 2, "--request-id")]),
    ("run --external-id", &[("run --external-id= x", 2, "--external-id"), ("run --external-id <long> x", 2, "--external-id")]),
    ("run --note", &[("run --note= x", 2, "--note"), ("run --note <long> x", 2, "--note")]),
    ("run --tree-dir", &[("run --tree-dir=plan.json --plan plan.json", 1, "plan.json")]),
    ("run --max-tool-turns", &[("run --max-tool-turns 0 x", 2, "--max-tool-turns"), ("run --max-tool-turns many x", 2, "--max-tool-turns"),
        ("run --max-tool-turns=-1 x", 2, "--max-tool-turns"), ("run --max-tool-turns 1001 x", 2, "--max-tool-turns")]),
    ("run --max-turns", &[("run --max-turns 0 x", 2, "--max-turns"), ("run --max-turns many x", 2, "--max-turns"), ("run --max-turns 100001 x", 2, "--max-turns")]),
    ("run --max-parallel-steps", &[("run --max-parallel-steps 0 x", 2, "--max-parallel-steps"), ("run --max-parallel-steps 1.5 x", 2, "--max-parallel-steps"),
        ("run --max-parallel-steps 129 x", 2, "is not in 1..=128")]),
    ("run --max-own-revisions", &[("run --max-own-revisions 0 x", 2, "--max-own-revisions"), ("run --max-own-revisions many x", 2, "--max-own-revisions"),
        ("run --max-own-revisions 101 x", 2, "--max-own-revisions")]),
    ("run --max-tokens", &[("run --max-tokens 0 x", 2, "--max-tokens"), ("run --max-tokens many x", 2, "--max-tokens"),
        ("run --max-tokens 1000000000001 x", 2, "--max-tokens")]),
    ("run --max-calls", &[("run --max-calls 0 x", 2, "--max-calls"), ("run --max-calls=-1 x", 2, "--max-calls"), ("run --max-calls 1000001 x", 2, "--max-calls")]),
    ("run --max-cost", &[("run --max-cost 0 x", 2, "--max-cost"), ("run --max-cost much x", 2, "--max-cost"), ("run --max-cost=-1 x", 2, "--max-cost"),
        ("run --max-cost NaN x", 2, "--max-cost")]),
    ("run --max-time", &[("run --max-time long x", 2, "--max-time"), ("run --max-time 366d x", 2, "--max-time")]),
    ("run --on-failure", &[("run --on-failure odd x", 2, "--on-failure"), ("run --on-failure= x", 2, "--on-failure")]),
    ("chat --context", &[("chat s --context nobody", 2, "nobody"), ("chat s --context=", 2, "--context")]),
    ("chat --model", &[("chat s --model nobody", 2, "--model")]),
    ("chat --agent", &[("chat s --agent nobody", 1, "nobody"), ("chat s --agent=", 2, "--agent")]),
    ("chat --mode", &[("chat s --mode odd", 2, "--mode"), ("chat s --mode=", 2, "--mode")]),
    ("chat --pace", &[("chat s --pace slow", 2, "--pace")]),
    ("context show --context", &[("context show s --context nobody", 1, "nobody"), ("context show s --context=", 2, "--context")]),
    ("context export --context", &[("context export s --context nobody", 1, "nobody"), ("context export s --context=", 2, "--context")]),
    ("context export --output", &[("context export s --output=", 2, "--output"), ("context export s --output docs", 1, "docs")]),
    ("context import --context", &[("context import s docs/one.md --context=", 2, "--context"),
        ("context import s docs/one.md --context c", 2, "line 1")]),
    ("context new --system", &[("context new s c --system=", 2, "--system")]),
    ("context new --window", &[("context new s c --window 0", 2, "--window"), ("context new s c --window many", 2, "--window")]),
    ("context set --window", &[("context set s c --window 0", 2, "--window"), ("context set s c --window=", 2, "--window")]),
    ("context new --when-full", &[("context new s c --when-full default", 2, "--when-full"), ("context new s c --when-full=", 2, "--when-full")]),
    ("context set --when-full", &[("context set s c --when-full never", 2, "--when-full"), ("context set s c --when-full=", 2, "--when-full")]),
    ("context compact --context", &[("context compact s --context nobody", 1, "nobody"), ("context compact s --context=", 2, "--context")]),
    ("context compact --keep", &[("context compact s --keep many", 2, "--keep"), ("context compact s --keep=-1", 2, "--keep")]),
    ("context compact --prompt", &[("context compact s --prompt=", 2, "--prompt"), ("context compact s --prompt @none.md", 2, "none.md"),
        ("context compact s --prompt @docs", 2, "docs"), ("context compact s --prompt <long>", 2, "--prompt")]),
    ("context compact --keep-in-mind", &[("context compact s --keep-in-mind=", 2, "--keep-in-mind"),
        ("context compact s --keep-in-mind <long>", 2, "--keep-in-mind")]),
    ("context compact --model", &[("context compact s --model nobody", 2, "--model"), ("context compact s --model=", 2, "--model")]),
    ("context remove --version", &[("context remove s main 0 --version many", 2, "--version"), ("context remove s main 0 --version=-1", 2, "--version")]),
    ("context destroy --conclude", &[("context destroy s c --conclude tone", 2, "--conclude"), ("context destroy s c --conclude =dry", 2, "--conclude"),
        ("context destroy s c --conclude k=a --conclude k=b", 2, "--conclude")]),
    ("knowledge put --id", &[("knowledge put docs/one.md --id=", 2, "--id"), ("knowledge put docs/one.md --id ü", 2, "--id"),
        ("knowledge put docs/one.md --id <long>", 2, "--id"), ("knowledge put docs --id x", 2, "--id")]),
    ("knowledge put --title", &[("knowledge put docs/one.md --title=", 2, "--title"), ("knowledge put docs/one.md --title <long>", 2, "--title"),
        ("knowledge put docs --title x", 2, "--title")]),
    ("knowledge put --tag", &[("knowledge put docs/one.md --tag=", 2, "--tag"), ("knowledge put docs/one.md --tag <long>", 2, "--tag")]),
    ("knowledge search --tag", &[("knowledge search x --tag=", 2, "--tag"), ("knowledge search x --tag <long>", 2, "--tag")]),
    ("knowledge search --max", &[("knowledge search x --max 0", 2, "--max"), ("knowledge search x --max 101", 2, "--max"),
        ("knowledge search x --max many", 2, "--max")]),
    ("knowledge search --min-score", &[("knowledge search x --min-score 1.1", 2, "--min-score"), ("knowledge search x --min-score=-1", 2, "--min-score"),
        ("knowledge search x --min-score NaN", 2, "--min-score"), ("knowledge search x --min-score much", 2, "--min-score")]),
    ("agent put --name", &[("agent put docs/one.md --name=", 2, "--name"), ("agent put docs/one.md --name a/b", 2, "--name")]),
    ("agent trust --digest", &[("agent trust --digest x", 2, "digest")]),
    ("resume --pace", &[("resume --pace slow s", 2, "--pace")]),
    ("resume --tree-dir", &[("resume --tree-dir=plan.json s", 1, "plan.json")]),
    ("watch --after", &[("watch --after many s", 2, "--after"), ("watch --after 99 s", 2, "99")]),
    ("tree --run", &[("tree --run first s", 2, "--run"), ("tree --run 99 s", 1, "99")]),
    ("tree --at", &[("tree --at now s", 2, "--at"), ("tree --at 99 s", 2, "--at"), ("tree --at 3 --live s", 2, "--at")]),
    ("report --at", &[("report --at now s", 2, "--at"), ("report --at 99 s", 2, "--at")]),
    ("plan show --at", &[("plan show --at now s", 2, "--at"), ("plan show --at 99 s", 2, "--at")]),
    ("tree --view", &[("tree --view odd s", 2, "--view"), ("tree --view= s", 2, "--view")]),
    ("tree --output", &[("tree s --output=", 2, "--output"), ("tree s --output plan.json/x", 1, "plan.json/x"),
        ("tree s --output docs", 1, "docs")]),
    ("report --run", &[("report --run first s", 2, "--run"), ("report --run 99 s", 1, "99")]),
    ("report --output", &[("report s --output=", 2, "--output"), ("report s --output plan.json/x", 1, "plan.json/x")]),
    ("sessions --status", &[("sessions --status odd", 2, "--status"), ("sessions --status=", 2, "--status")]),
    ("sessions --pending", &[("sessions --pending=odd", 2, "--pending"), ("sessions --pending=", 2, "--pending")]),
    ("sessions --agent", &[("sessions --agent <long>", 2, "filter.agent")]),
    ("sessions --since", &[("sessions --since soon", 2, "--since"), ("sessions --since=-1s", 2, "--since")]),
    ("sessions --before", &[("sessions --before soon", 2, "--before"), ("sessions --before=-1s", 2, "--before")]),
    ("sessions --sort", &[("sessions --sort size", 2, "--sort"), ("sessions --sort=", 2, "--sort")]),
    ("sessions --limit", &[("sessions --limit many", 2, "--limit"), ("sessions --limit=-1", 2, "--limit")]),
    ("log --after", &[("log --after many s", 2, "--after")]),
    ("log --result", &[("log s --result=", 2, "--result"), ("log s --result result-9", 1, "result-9"),
        ("log s --result <long>", 2, "--result"), ("log s --full --result result-1", 2, "--full")]),
    ("log --output", &[("log s --output=", 2, "--output"), ("log s --output log.txt", 2, "--result")]),
    ("state --at", &[("state --at now s", 2, "--at"), ("state --at 99 s", 2, "--at")]),
    ("memory --session", &[("memory --session nobody list", 1, "nobody"), ("memory --session= list", 2, "session")]),
    ("memory set --meta", &[("memory --session s set k v --meta tone", 2, "--meta"), ("memory --session s set k v --meta =dry", 2, "--meta"),
        ("memory --session s set k v --meta a=1 --meta a=2", 2, "--meta")]),
    ("memory watch --after", &[("memory --session s watch --after many", 2, "--after"),
        ("memory --session s watch --after 99", 2, "99")]),
    ("approve --scope", &[("approve s --scope=", 2, "--scope"), ("approve s --scope tool --always", 2, "--always")]),
    ("approve --when", &[("approve s --always --when path", 2, "--when"), ("approve s --always --when =x", 2, "--when"),
        ("approve s --when path=x", 2, "--always")]),
    ("config trust --digest", &[("config trust cairn.toml --digest x", 2, "digest")]),
    ("tools allow --digest", &[("tools allow nobody --digest x", 2, "nobody")]),
    ("pool context --run", &[("pool context s --run 0", 2, "--run"), ("pool context s --run 99", 1, "99"),
        ("pool context --run 1", 2, "SESSION")]),
    ("pool context --step", &[("pool context s --step many", 2, "--step"), ("pool context s --step 99", 1, "99")]),
    ("pool put --kind", &[("pool put g --kind=", 2, "--kind"), ("pool put g --kind GPU", 2, "--kind")]),
    ("pool put --capability", &[("pool put g --kind gpu --capability GPU", 2, "--capability"),
        ("pool put g --kind gpu --capability gpu>=many", 2, "--capability")]),
    ("pool put --slots", &[("pool put g --kind gpu --slots 0", 2, "--slots"), ("pool put g --kind gpu --slots 10001", 2, "--slots")]),
    ("pool put --label", &[("pool put g --kind gpu --label rack", 2, "--label"), ("pool put g --kind gpu --label =7", 2, "--label")]),
    ("pool grant --agent", &[("pool grant edit_file --agent=", 2, "--agent"), ("pool grant edit_file --agent a/b", 2, "--agent"),
        ("pool grant edit_file --agent a --executor b", 2, "--executor")]),
    ("pool grant --executor", &[("pool grant edit_file --executor=", 2, "--executor"),
        ("pool grant edit_file --executor <long>", 2, "--executor")]),
    ("pool revoke --agent", &[("pool revoke edit_file --agent=", 2, "--agent"), ("pool revoke edit_file --agent a/b", 2, "--agent")]),
    ("pool revoke --executor", &[("pool revoke edit_file --executor=", 2, "--executor"),
        ("pool revoke edit_file --executor <long>", 2, "--executor")]),
    ("hook try --point", &[("hook try a --point PreTool", 2, "--point"), ("hook try a --point=", 2, "--point")]),
    ("hook try --tool", &[("hook try a --point PreToolCall --tool=", 2, "--tool"), ("hook try nobody --point PreToolCall --tool x", 1, "nobody")]),
    ("hook try --arguments", &[("hook try a --point PreToolCall --arguments [1]", 2, "--arguments")]),
    ("hook try --text", &[("hook try a --point OnError --text=", 2, "--text")]),
    ("prompt render --var", &[("prompt render planning --var team", 2, "--var"), ("prompt render planning --var =Blue", 2, "--var"),
        ("prompt render planning --var a-b=x", 2, "--var")]),
    ("tools call --save", &[("tools call list_files --save=", 2, "--save")]),
    ("decide approve --scope", &[("decide s approval-1.1.1.0.0 approve --scope=", 2, "--scope")]),
    ("decide approve --when", &[("decide s approval-1.1.1.0.0 approve --always --when path", 2, "--when")]),
    ("decide done --output", &[("decide s call-1.1.1.0.0 done --output <long>", 2, "settlement.done.output")]),
    ("decide skip --reason", &[("decide s call-1.1.1.0.0 skip --reason <long>", 2, "settlement.skip.reason")]),
    ("decide fail --reason", &[("decide s call-1.1.1.0.0 fail --reason <long>", 2, "settlement.fail.reason")]),
    ("decide deny --reason", &[("decide s call-1.1.1.0.0 deny --reason <long>", 2, "settlement.deny.reason")]),
    ("plan show --run", &[("plan show --run first s", 2, "--run"), ("plan show --run 99 s", 1, "99")]),
    ("plan diff --run", &[("plan diff --run first 1 1", 2, "--run"), ("plan diff --run 99 1 1", 1, "99")]),
    ("plan edit --file", &[("plan edit s --file none.json", 2, "none.json"), ("plan edit s --file docs", 2, "docs")]),
    ("skip --reason", &[("skip --reason <long> s 1", 2, "reason")]),
    ("pause --reason", &[("pause --reason <long> s", 2, "reason")]),
    ("cancel --run", &[("cancel --run first s", 2, "--run"), ("cancel --run 99 s", 1, "99")]),
    ("cancel --reason", &[("cancel --reason <long> s", 2, "reason")]),
    ("fork --at", &[("fork --at now s", 2, "--at"), ("fork --at 99 s", 2, "--at"), ("fork --at=-1 s", 2, "--at")]),
    ("fork --title", &[("fork --title <long> s", 2, "--title")]),
    ("fork --new-session", &[("fork s --new-session ../up", 2, "--new-session"), ("fork s --new-session s", 2, "--new-session"),
        ("fork s --new-session <long>", 2, "--new-session")]),
    ("fork --request-id", &[("fork s --request-id=", 2, "--request-id"), ("fork s --request-id ü", 2, "--request-id"),
        ("fork s --request-id <long>", 2, "--request-id")]),
    ("import --new-session", &[("import none.jsonl --new-session ../up", 2, "new_session"),
        ("import none.jsonl --new-session <long>", 2, "new_session")]),
    ("export --output", &[("export s --output=", 2, "--output"), ("export s --output plan.json/x", 1, "plan.json/x"),
        ("export s --output docs", 1, "docs")]),
    ("serve --listen", &[("serve --listen here", 2, "--listen"), ("serve --listen 127.0.0.1", 2, "--listen")]),
    ("serve --internal", &[("serve tools --internal here", 2, "--internal"), ("serve --internal 127.0.0.1:0", 2, "--internal")]),
    ("serve --link", &[("serve tools --link memory", 2, "--link"), ("serve tools --link nobody=http://h:1", 2, "--link"),
        ("serve tools --link memory=here", 2, "--link"), ("serve --link memory=http://h:1", 2, "--link")]),
    ("serve --otlp", &[("serve --otlp here", 2, "--otlp"), ("serve --otlp=", 2, "--otlp")]),
    ("serve --metrics", &[("serve --metrics here", 2, "--metrics"), ("serve --metrics=", 2, "--metrics")]),
    ("serve --grace", &[("serve --grace soon", 2, "--grace"), ("serve --grace 1000d", 2, "--grace")]),
    ("serve --model", &[("serve --model nobody", 2, "--model")]),
    ("serve --pace", &[("serve --pace slow", 2, "--pace")]),
];

/// All flags that take a value, each with its command: those of all commands once, without one.
fn flags(path: &str, command: &Command, found: &mut BTreeSet<String>) {
    let takes_value = |arg: &&Arg| arg.get_action().takes_values();
    for arg in command.get_arguments().filter(takes_value) {
        if let Some(long) = arg.get_long() {
            found.insert(format!("{path} --{long}").trim().to_owned());
        }
    }
    for inner in command.get_subcommands() {
        let path = format!("{path} {}", inner.get_name());
        flags(path.trim(), inner, found);
    }
}

#[test]
fn every_flag_that_takes_a_value_has_a_case() {
    let mut defined = BTreeSet::new();
    flags("", &Cli::command(), &mut defined);
    let tried: BTreeSet<String> = CASES.iter().map(|(flag, _)| (*flag).to_owned()).collect();
    let without: Vec<_> = defined.difference(&tried).collect();
    let gone: Vec<_> = tried.difference(&defined).collect();
    assert!(without.is_empty(), "flags without a case: {without:?}");
    assert!(gone.is_empty(), "cases without a flag: {gone:?}");
    for (flag, uses) in CASES {
        let name = flag.split(' ').next_back().unwrap_or_default();
        let all = uses.iter().all(|(command, ..)| command.contains(name));
        assert!(all, "{flag} is not used in {uses:?}");
    }
}

/// A site with a run in the session `s`, which is killed at a commit or completes.
fn site(killed: Option<&str>) -> Site {
    let site = Site::new(CAIRN);
    let plan = r#"{"steps": [{"tool": "list_files", "arguments": {}}]}"#;
    site.write("plan.json", plan);
    let fail = killed.map(|commit| ("CAIRN_FAIL_COMMIT", commit));
    let run = ["run", "--session", "s", "--plan", "plan.json"];
    let done = site.run_with(&run, fail.as_slice());
    let signal = killed.map(|_| 9);
    assert_eq!(done.signal, signal, "{done:?}");
    site
}

#[test]
fn every_wrong_value_of_a_flag_is_refused_by_name() {
    let site = site(None);
    let long = "x".repeat(60_000);
    let mut wrong = Vec::new();
    let mut count = 0;
    for (command, code, named) in CASES.iter().flat_map(|(_, uses)| *uses) {
        let arguments: Vec<&str> = command
            .split(' ')
            .map(|argument| if argument == LONG { &long } else { argument })
            .collect();
        // Whoever works on a store continues with what is interrupted in it.
        let interrupted = command
            .starts_with("resume")
            .then(|| self::site(Some("after:3")));
        let done = interrupted.as_ref().unwrap_or(&site).run(&arguments);
        count += 1;
        let is_one_error = ["cairn: ", "error: "]
            .iter()
            .any(|start| done.err.starts_with(start));
        let is_clear = is_one_error
            && done.err.contains(named)
            && !done.err.contains("panicked")
            && !done.err.contains(|c| is_hidden(c) && c != '\n')
            && done.err.len() < 2000;
        if done.code != Some(*code) || !is_clear {
            wrong.push(format!("{command}: {:?} {:.600}", done.code, done.err));
        }
    }
    println!("{count} wrong values of {} flags", CASES.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A default that is stated is not followed by an empty one.
#[test]
fn no_help_shows_an_empty_default() {
    fn look(path: &str, command: &mut Command, found: &mut Vec<String>) {
        let help = command.render_long_help().to_string();
        found.extend(help.contains("[default: \"\"]").then(|| path.to_owned()));
        for inner in command.get_subcommands_mut() {
            let path = format!("{path} {}", inner.get_name());
            look(&path, inner, found);
        }
    }
    let mut found = Vec::new();
    look("cairn", &mut Cli::command(), &mut found);
    assert!(found.is_empty(), "{found:?}");
}
