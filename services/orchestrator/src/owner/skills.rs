//! Reads files of skills for models.

use crate::key::SessionKey;
use crate::store::{for_session, may_pass, within};
use cairn_engine::decide::SkillRequest;
use cairn_engine::result::head;
use cairn_proto::tools::tools_service_client::ToolsServiceClient;
use cairn_proto::tools::{ReadSkillFileRequest, ReadSkillFileResponse};
use cairn_rpc::{ErrorKind, Link, RpcError};
use std::time::Duration;
use tokio::time::sleep;

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
            Ok(read) => {
                let ReadSkillFileResponse { content, size } = read.into_inner();
                return text(asked, &content, size, most);
            }
            Err(status) => RpcError::from_status(&status),
        };
        if !may_pass(&error) {
            return Err(refused(asked, &error));
        }
        sleep(PAUSE).await;
    }
}

/// `content` is the beginning of a file of `size` bytes.
fn text(asked: &SkillRequest, content: &[u8], size: u64, most: usize) -> Result<String, String> {
    let is_whole = content.len() as u64 >= size;
    let text = match std::str::from_utf8(content) {
        Ok(text) => Some(text),
        // The cut parts a character.
        Err(error) if !is_whole && error.error_len().is_none() => {
            std::str::from_utf8(&content[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    };
    let Some(text) = text.filter(|text| !text.contains('\0')) else {
        return Err(format!("{} is binary; only text can be read", named(asked)));
    };
    if is_whole && text.len() <= most {
        return Ok(text.to_owned());
    }
    let shown = head(text, most.saturating_sub(NOTE));
    let bytes = shown.len();
    Ok(format!(
        "{shown}\n[the file is too long: these are the first {bytes} of its {size} bytes]"
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
        let cut = text(&asked(""), long.as_bytes(), 5_000, 2_048).unwrap();
        assert!(cut.len() <= 2_048, "{}", cut.len());
        assert!(cut.starts_with("line\nline\n"));
        assert!(cut.ends_with("of its 5000 bytes]"), "{cut}");
        let whole = text(&asked(""), long.as_bytes(), 5_000, 5_000);
        assert_eq!(whole, Ok(long));
        // The tools service gave only the beginning, which ends within a character.
        let cut = text(&asked(""), &"ää".as_bytes()[..3], 4, 1_024).unwrap();
        assert!(cut.starts_with("ä\n[the file is too long"), "{cut}");
    }

    #[test]
    fn what_cannot_be_read_is_said_in_words() {
        let binary = text(&asked("logo.png"), &[0x89, 0xff], 2, 1_024);
        let expected = "file 'logo.png' of skill 'release' is binary; only text can be read";
        assert_eq!(binary, Err(expected.to_owned()));
        assert!(text(&asked(""), b"a\0b", 3, 1_024).is_err());
        let changed = refused(&asked(""), &RpcError::precondition("changed"));
        assert!(changed.starts_with("skill 'release' has changed and is not confirmed;"));
        let missing = refused(&asked("x.md"), &RpcError::not_found("file", "x.md"));
        assert_eq!(missing, "file 'x.md' of skill 'release' does not exist");
    }
}
