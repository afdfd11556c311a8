//! Reads files of skills for models.

use crate::key::SessionKey;
use crate::store::{for_session, may_pass, within};
use cairn_engine::decide::SkillRequest;
use cairn_engine::result::head;
use cairn_proto::tools::ReadSkillFileRequest;
use cairn_proto::tools::tools_service_client::ToolsServiceClient;
use cairn_rpc::{ErrorKind, Link, RpcError};
use std::time::Duration;
use tokio::time::sleep;

/// Most bytes of a file that a model gets, whatever its window takes.
const MOST: usize = 256 * 1024;
/// Bytes that the line about a cut file may have.
const NOTE: usize = 128;
/// One try to read a file may take so long.
const TRY: Duration = Duration::from_secs(5);
/// The pause before the tools service is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// The text of a file of a skill, of at most `most` bytes. Asks again and again while the tools service cannot
/// be reached.
///
/// # Errors
/// Why there is no text, in words for the model.
pub(super) async fn read(
    mut tools: ToolsServiceClient<Link>,
    key: &SessionKey,
    asked: &SkillRequest,
    most: usize,
) -> Result<String, String> {
    let request = ReadSkillFileRequest {
        skill: asked.skill.clone(),
        file: asked.file.clone(),
        digest: asked.digest.clone(),
    };
    loop {
        let sent = within(TRY, for_session(key, request.clone()));
        let error = match tools.read_skill_file(sent).await {
            Ok(read) => return text(asked, &read.into_inner().content, most),
            Err(status) => RpcError::from_status(&status),
        };
        if !may_pass(&error) {
            return Err(refused(asked, &error));
        }
        sleep(PAUSE).await;
    }
}

fn text(asked: &SkillRequest, content: &[u8], most: usize) -> Result<String, String> {
    let text = std::str::from_utf8(content).ok();
    let Some(text) = text.filter(|text| !text.contains('\0')) else {
        return Err(format!(
            "{} is binary; only text can be read",
            named(asked)
        ));
    };
    let most = most.min(MOST);
    if text.len() <= most {
        return Ok(text.to_owned());
    }
    let shown = head(text, most.saturating_sub(NOTE));
    let (shown_bytes, bytes) = (shown.len(), text.len());
    Ok(format!(
        "{shown}\n[the file is too long: these are the first {shown_bytes} of its {bytes} bytes]"
    ))
}

/// The tools service's refusal in words for the model.
fn refused(asked: &SkillRequest, error: &RpcError) -> String {
    match error.kind() {
        ErrorKind::FailedPrecondition | ErrorKind::Conflict => format!(
            "skill '{}' has changed and is not confirmed; work without it, and say so in your answer: a \
             person confirms it with `cairn agent trust`",
            asked.skill
        ),
        ErrorKind::NotFound => format!("{} does not exist", named(asked)),
        _ => format!("{} cannot be read: {}", named(asked), error.message()),
    }
}

fn named(asked: &SkillRequest) -> String {
    match asked.file.as_str() {
        "" => format!("skill '{}'", asked.skill),
        file => format!("file '{file}' of skill '{}'", asked.skill),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(file: &str) -> SkillRequest {
        SkillRequest {
            skill: "release".to_owned(),
            file: file.to_owned(),
            digest: "d".to_owned(),
        }
    }

    #[test]
    fn a_file_that_is_longer_than_the_limit_is_cut_and_says_so() {
        let long = "line\n".repeat(1_000);
        let cut = text(&asked(""), long.as_bytes(), 2_048).unwrap();
        assert!(cut.len() <= 2_048, "{}", cut.len());
        assert!(cut.starts_with("line\nline\n"));
        assert!(cut.ends_with("of its 5000 bytes]"), "{cut}");
        assert_eq!(text(&asked(""), long.as_bytes(), 5_000), Ok(long));
        let most = "a".repeat(MOST + 1);
        let cut = text(&asked(""), most.as_bytes(), usize::MAX).unwrap();
        assert!(cut.len() <= MOST);
    }

    #[test]
    fn what_cannot_be_read_is_said_in_words() {
        let binary = text(&asked("logo.png"), &[0x89, 0xff], 1_024);
        let expected = "file 'logo.png' of skill 'release' is binary; only text can be read";
        assert_eq!(binary, Err(expected.to_owned()));
        assert!(text(&asked(""), b"a\0b", 1_024).is_err());
        let changed = refused(&asked(""), &RpcError::precondition("changed"));
        assert!(changed.starts_with("skill 'release' has changed and is not confirmed;"));
        let missing = refused(&asked("x.md"), &RpcError::not_found("file", "x.md"));
        assert_eq!(missing, "file 'x.md' of skill 'release' does not exist");
    }
}
