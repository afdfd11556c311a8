//! Sessions that are given another title.

use crate::support::{World, chain, tool_step};
use cairn_proto::orchestrator as pb;

/// A goal does not take the place of a title that somebody chose.
#[tokio::test(start_paused = true)]
async fn a_renamed_session_is_listed_under_its_new_title_until_that_is_taken_back() {
    let world = World::new().await;
    let mut run = chain(vec![tool_step("pure")]);
    run.goal = "Count the files".to_owned();
    let session = world.start(run).await;
    let mut client = world.client.clone();
    for (title, listed) in [("Counting", "Counting"), ("", "Count the files")] {
        let rename = pb::RenameSessionRequest {
            session: session.clone(),
            title: title.to_owned(),
            request_id: world.request_id(),
        };
        for _ in 0..2 {
            let answer = world.until(client.rename_session(rename.clone())).await;
            assert_eq!(answer.unwrap().into_inner().title, title);
        }
        let get = pb::GetSessionRequest {
            session: session.clone(),
        };
        let shown = client.get_session(get).await.unwrap().into_inner();
        assert_eq!(shown.session.unwrap().title, listed);
        assert_eq!(world.listed(0).await[0].title, listed);
    }
    let rename = pb::RenameSessionRequest {
        session,
        title: "t".repeat(257),
        request_id: world.request_id(),
    };
    let error = client.rename_session(rename).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::InvalidArgument);
}
