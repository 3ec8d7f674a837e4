//! `/api/v1/files`: what people attach to messages, and what teams send back.

use std::time::Duration;

use actix_web::{
    HttpResponse,
    http::{
        StatusCode,
        header::{self, HeaderValue},
    },
    web::Bytes,
};
use futures_util::{Stream, StreamExt, stream};
use hivewright_actors::{
    file::{FileRef, records::FileRow},
    ids::FileId,
};
use tokio::io::AsyncReadExt;

use crate::{
    api::{endpoint::*, files::*, reply::*, scope::Scope},
    files::{FileError, sniff},
    http::kit::{call::*, error::*, middleware::declared_length, revocation::until_ended},
};

/// A file of which nothing came for this long is given up.
const SILENCE: Duration = Duration::from_secs(30);
/// However it comes, a file that took this long is given up.
const SLOWEST: Duration = Duration::from_secs(15 * 60);
/// So much of a file is read at once.
const PIECE: usize = 64 * 1024;

impl From<FileError> for ApiError {
    fn from(error: FileError) -> Self {
        let message = error.to_string();
        match error {
            FileError::Unknown(_) => Self::not_found(message),
            FileError::Gone(_) => Self::new(StatusCode::GONE, "gone", message),
            FileError::TooMany => Self::invalid_field("files", message),
            FileError::TooLarge(_) => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
            }
            FileError::Quota(_) => Self::conflict_as("files_full", message),
            FileError::DiskFull => Self::disk_full(),
            _ => Self::internal(message),
        }
    }
}

pub(super) async fn upload(
    Call { state, caller, query: NewFile { name }, payload, request, .. }: Call<Empty, NewFile>,
) -> ApiResult<Created<FileRef>> {
    if state.service.is_draining() {
        return Err(ApiError::draining());
    }
    let row = state.file_store.blank(&state.secrets.scrub_known(&name.unwrap_or_default()));
    let row = FileRow { owner: Some(caller.principal.owner().grant), ..row };
    let mut incoming =
        state.file_store.begin(&row.account(), declared_length(request.headers())).await?;
    let mut payload = payload.ok_or_else(|| ApiError::internal("no body"))?;
    let received = async {
        while let Some(piece) = next(&mut payload).await? {
            incoming.write(&piece).await?;
        }
        Ok::<_, ApiError>(incoming)
    };
    let received = tokio::time::timeout(SLOWEST, received).await;
    let incoming = received.map_err(|_| ApiError::too_slow())??;
    let row = state.file_store.keep(incoming, row).await?;
    caller.names(row.file.id.as_str());
    Ok(Created(row.file))
}

/// The next piece of a body; none is its end.
async fn next(payload: &mut actix_web::web::Payload) -> ApiResult<Option<Bytes>> {
    let piece = tokio::time::timeout(SILENCE, payload.next()).await;
    let piece = piece.map_err(|_| ApiError::too_slow())?.transpose();
    piece.map_err(|_| ApiError::invalid("the file did not arrive whole; send it again"))
}

pub(super) async fn download(
    Call { state, caller, path: ById { id }, .. }: Call<ById>,
) -> ApiResult<HttpResponse> {
    let unknown = || ApiError::not_found("there is no such file, or it is not yours to read");
    let id = FileId::named(&id).ok_or_else(unknown)?;
    let principal = &caller.principal;
    let own = if principal.may(Scope::Chat) {
        state.file_store.of(&principal.owner(), &id).await?
    } else {
        None
    };
    let row = match own {
        Some(row) => row,
        None => {
            let of_team = |row: &FileRow| {
                principal.may(Scope::Read)
                    && row.team.as_ref().is_some_and(|team| caller.reaches(team.as_str()))
            };
            state.file_store.find(&id).await?.filter(of_team).ok_or_else(unknown)?
        }
    };
    let content = state.file_store.content(&row.file).await?;
    let mut response = HttpResponse::Ok();
    response
        .content_type(sniff::served(&row.file.mime))
        .insert_header((header::CONTENT_DISPOSITION, disposition(&row.file.name)?))
        // Opened by itself it is nobody's page: it runs nothing, and reaches nothing.
        .insert_header((header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"))
        .insert_header((header::X_FRAME_OPTIONS, "DENY"))
        .insert_header((header::ACCEPT_RANGES, "none"))
        .no_chunking(row.file.size);
    Ok(response.streaming(until_ended(&caller.principal, pieces(content))))
}

/// Always a download: the page shows a picture by its own element, never by opening the address.
fn disposition(name: &str) -> ApiResult<HeaderValue> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || " -_.+()".contains(c) { c } else { '_' };
    let ascii: String = name.chars().map(plain).collect();
    let encoded: String = name
        .bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                char::from(byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        })
        .collect();
    let value = format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{encoded}");
    HeaderValue::from_str(&value).map_err(ApiError::internal)
}

fn pieces(file: tokio::fs::File) -> impl Stream<Item = std::io::Result<Bytes>> {
    stream::try_unfold(file, |mut file| async move {
        let mut piece = Vec::with_capacity(PIECE);
        let read = (&mut file).take(PIECE as u64).read_to_end(&mut piece).await?;
        Ok::<_, std::io::Error>((read > 0).then(|| (Bytes::from(piece), file)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SC-66: no name ends the header, or says something else than a name.
    #[test]
    fn a_download_says_its_name_twice_and_nothing_else() {
        let said = |name: &str| disposition(name).unwrap().to_str().unwrap().to_owned();

        assert_eq!(said("a b.txt"), "attachment; filename=\"a b.txt\"; filename*=UTF-8''a%20b.txt");
        assert_eq!(
            said("é\"; x=\"1"),
            "attachment; filename=\"___ x__1\"; filename*=UTF-8''%C3%A9%22%3B%20x%3D%221"
        );
    }
}
