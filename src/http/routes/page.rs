//! `/` and `/ui/…`: the web page. Only its files are compressed: they hold no secret that the
//! length of an answer could give away.

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{self, HeaderValue},
};

use crate::{
    api::{
        endpoint::{Empty, Endpoint, Method::Get, Needs},
        reply::Content,
    },
    http::{
        kit::{
            call::{Anyone, Call},
            error::{ApiError, ApiResult},
        },
        ui,
    },
};

pub(super) const SHOW_PAGE: Endpoint<Content> =
    Endpoint::new(Get, "/", Needs::Nothing, "Shows the web page.").raw();

pub(super) const SERVE_FILE: Endpoint<Content> =
    Endpoint::new(Get, "/ui/{file}", Needs::Nothing, "Serves a file of the web page.").raw();

pub(super) async fn serve(
    Call { request, .. }: Call<Empty, Empty, Empty, Anyone>,
) -> ApiResult<HttpResponse> {
    let asset = ui::asset(request.path());
    let asset = asset.ok_or_else(|| ApiError::not_found("there is no such file"))?;
    let packed = takes_gzip(&request);
    // Each form of a file has a tag of its own.
    let etag =
        if packed { format!("\"{}-gzip\"", asset.tag()) } else { format!("\"{}\"", asset.tag()) };
    let known = request.headers().get(header::IF_NONE_MATCH);
    let is_known = known.is_some_and(|known| names(known, &etag));
    let mut response = if is_known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    for (name, value) in ui::security_headers() {
        response.insert_header((name, value));
    }
    // The files of one page belong together: a browser keeps those of one version, and asks again for
    // what has no version in its name. The tag saves the bytes.
    let keep = if ui::is_lasting(request.path()) {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    response
        .insert_header((header::CACHE_CONTROL, keep))
        .insert_header((header::VARY, "Accept-Encoding"))
        .insert_header((header::ETAG, etag));
    if is_known {
        return Ok(response.finish());
    }
    response.content_type(asset.content_type());
    Ok(if packed {
        response.insert_header((header::CONTENT_ENCODING, "gzip")).body(asset.packed())
    } else {
        response.body(asset.bytes())
    })
}

/// Whether a client says that it can read the compressed form.
pub(super) fn takes_gzip(request: &HttpRequest) -> bool {
    let accepted = request.headers().get(header::ACCEPT_ENCODING);
    let accepted = accepted.and_then(|value| value.to_str().ok());
    accepted.unwrap_or_default().split(',').any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let refused = matches!(weight.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000");
        name.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

/// A proxy that compresses makes a tag weak, and a browser repeats it so.
fn names(known: &HeaderValue, etag: &str) -> bool {
    let tags = known.to_str().unwrap_or_default().split(',');
    tags.map(|tag| tag.trim().trim_start_matches("W/")).any(|tag| tag == etag || tag == "*")
}
