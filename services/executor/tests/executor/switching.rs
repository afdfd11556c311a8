//! The catalogue of an attempt changes while the attempt is carried out.

use crate::bench::{Asked, Bench};
use crate::owner::{Owner, call_ref, catalogue, model_step, owners_result};
use cairn_proto::event::Effect;
use cairn_proto::executor::run_step_request::Message as ToExecutor;
use cairn_proto::executor::{AttemptStart, Catalogue, OfferedTool};

/// A catalogue of pure tools, each a name and a digest, whose calls need no permit.
fn of(tools: &[(&str, &str)]) -> Catalogue {
    let tools = tools.iter().map(|(name, digest)| OfferedTool {
        name: (*name).to_owned(),
        parameters_json: r#"{"type":"object"}"#.to_owned(),
        effect: Effect::Pure.into(),
        is_allowed: true,
        digest: (*digest).to_owned(),
        ..OfferedTool::default()
    });
    Catalogue {
        tools: tools.collect(),
    }
}

/// A step that begins with the catalogue of this name.
fn with(catalogue: &str) -> AttemptStart {
    AttemptStart {
        catalogue: catalogue.to_owned(),
        ..model_step()
    }
}

/// Has the executor know a catalogue.
async fn learn(bench: &mut Bench, name: &str, listed: Catalogue) {
    let mut owner = bench.start(with(name)).await;
    owner.lacks(listed).await;
    let asked = bench.asked().await;
    drop(owner);
    asked.dropped().await;
}

fn names(asked: &Asked) -> Vec<&str> {
    let tools = asked.request.tools.iter();
    tools.map(|tool| tool.name.as_str()).collect()
}

/// One tool vanishes and one appears.
#[tokio::test(start_paused = true)]
async fn the_next_request_has_the_catalogue_that_the_owner_names() {
    for is_known in [false, true] {
        let mut bench = Bench::new().await;
        let (next, listed) = ("next", of(&[("peek", ""), ("find", "")]));
        if is_known {
            learn(&mut bench, next, listed.clone()).await;
        }
        let mut owner = bench.start(model_step()).await;
        let asked = bench.asked().await;
        assert_eq!(names(&asked), ["look", "peek", "put", "send", "step"]);
        asked.reply("", &[("look", "{}")]);
        assert_eq!(owner.report().await.number, 1);
        owner.switch(1, next);
        bench.called().await.output("seen");
        if !is_known {
            owner.lacks(listed).await;
        }
        let asked = bench.asked().await;
        assert_eq!(names(&asked), ["peek", "find"]);
        // It stays until the owner names another one.
        asked.reply("", &[("find", "{}")]);
        let report = owner.report().await;
        assert_eq!(report.number, 2);
        owner.ack(2);
        bench.called().await.output("found");
        let asked = bench.asked().await;
        assert_eq!(names(&asked), ["peek", "find"]);
        asked.reply("Hm.", &[]);
        assert_eq!(owner.report().await.number, 3);
        owner.switch(3, &model_step().catalogue);
        assert_eq!(names(&bench.asked().await), names_of(&catalogue()));
    }
}

fn names_of(catalogue: &Catalogue) -> Vec<&str> {
    let tools = catalogue.tools.iter();
    tools.map(|tool| tool.name.as_str()).collect()
}

/// The model was offered tools that were revoked while it wrote its reply.
#[tokio::test(start_paused = true)]
async fn a_call_of_a_tool_that_was_revoked_meanwhile_does_not_begin_early() {
    for is_known in [true, false] {
        let mut bench = Bench::new().await;
        let before = of(&[("look", "1"), ("find", "1"), ("read", "1")]);
        let after = of(&[("find", "1"), ("read", "2")]);
        learn(&mut bench, "before", before).await;
        if is_known {
            learn(&mut bench, "after", after.clone()).await;
        }
        let mut owner = bench.start(with("before")).await;
        let asked = bench.asked().await;
        owner.switch(0, "after");
        // It arrives before the reply.
        owner.hears_nothing().await;
        asked.reply("", &[("look", "{}"), ("find", "{}"), ("read", "{}")]);
        assert_eq!(owner.report().await.number, 1);
        if is_known {
            let called = bench.called().await;
            assert_eq!(called.request.name, "find");
            called.output("found");
        }
        // The others wait for the owner. So do all where the executor does not know what changed.
        bench.is_quiet().await;
        let refused = (0..3).filter(|at| !is_known || *at != 1);
        let refused = refused.map(|at| owners_result(call_ref(0, at), "it was revoked"));
        owner.ack_with(1, Vec::new(), refused.collect());
        if is_known {
            // The result was held for 20 ms, and is a report of its own.
            assert_eq!(owner.report().await.number, 2);
        } else {
            owner.lacks(after).await;
        }
        assert_eq!(names(&bench.asked().await), ["find", "read"]);
    }
}

/// A catalogue is that of the last name before it, also if the executor asked for an older one.
#[tokio::test(start_paused = true)]
async fn a_catalogue_that_changes_while_it_is_awaited_is_kept_by_its_own_name() {
    for at_start in [true, false] {
        let mut bench = Bench::new().await;
        let mut number = 0;
        let mut owner = if at_start {
            bench.start(with("first")).await
        } else {
            let mut owner = bench.start(model_step()).await;
            bench.asked().await.reply("Hm.", &[]);
            number = owner.report().await.number;
            owner.switch(number, "first");
            owner
        };
        assert!(owner.report().await.lacks_catalogue);
        owner.switch(number, "second");
        owner.send(ToExecutor::Catalogue(of(&[("find", "")])));
        let asked = bench.asked().await;
        assert_eq!(names(&asked), ["find"]);
        owner.end(number).await;
        asked.dropped().await;
        // The executor has the second one now, and lacks the first one.
        let owner = bench.start(with("second")).await;
        let asked = bench.asked().await;
        assert_eq!(names(&asked), ["find"]);
        owner.end(0).await;
        asked.dropped().await;
        let mut owner: Owner = bench.start(with("first")).await;
        owner.lacks(of(&[("read", "")])).await;
        assert_eq!(names(&bench.asked().await), ["read"]);
    }
}

/// A deferred tool that the model has found is offered as long as the catalogue has it.
#[tokio::test(start_paused = true)]
async fn tools_that_were_found_stay_if_the_next_catalogue_has_them() {
    let deferred = |names: &[&str]| {
        let mut listed = of(&[("look", "")]);
        for name in names {
            let tool = of(&[(*name, "")]).tools.remove(0);
            listed.tools.push(OfferedTool {
                is_deferred: true,
                ..tool
            });
        }
        listed
    };
    let mut bench = Bench::new().await;
    let start = AttemptStart {
        found_tools: vec!["far".to_owned(), "farther".to_owned()],
        ..with("both")
    };
    let mut owner = bench.start(start).await;
    owner.lacks(deferred(&["far", "farther"])).await;
    let asked = bench.asked().await;
    assert_eq!(names(&asked), ["look", "far", "farther"]);
    asked.reply("Hm.", &[]);
    assert_eq!(owner.report().await.number, 1);
    owner.switch(1, "one");
    owner.lacks(deferred(&["farther"])).await;
    assert_eq!(names(&bench.asked().await), ["look", "farther"]);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_may_end_while_it_waits_for_the_next_catalogue() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(model_step()).await;
    bench.asked().await.reply("Hm.", &[]);
    assert_eq!(owner.report().await.number, 1);
    owner.switch(1, "next");
    assert!(owner.report().await.lacks_catalogue);
    owner.end(1).await;
    bench.is_quiet().await;
}
