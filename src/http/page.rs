//! `/` and `/ui/…`: the web page. Only its files are compressed: they hold no secret that the
//! length of an answer could give away.

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{self, HeaderValue},
};

use super::{
    error::ApiError,
    operation::Operation,
    reply::Content,
    routes::{Resource, at},
    ui,
};

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/")
            .get(Operation::new("Shows the web page."), serve)
            .compressed(),
        at("/ui/{file}")
            .get(Operation::new("Serves a file of the web page."), serve)
            .compressed(),
    ]
}

async fn serve(request: HttpRequest) -> Result<Content, ApiError> {
    let asset = ui::asset(request.path());
    let asset = asset.ok_or_else(|| ApiError::not_found("there is no such file"))?;
    let known = request.headers().get(header::IF_NONE_MATCH);
    let is_known = known.is_some_and(|known| names(known, &asset.etag));
    let mut response = match is_known {
        true => HttpResponse::NotModified(),
        false => HttpResponse::Ok(),
    };
    for (name, value) in ui::security_headers() {
        response.insert_header((name, value));
    }
    // The files of one page belong together, so each is asked for again; the tag saves the bytes.
    response
        .insert_header((header::CACHE_CONTROL, "no-cache"))
        .insert_header((header::ETAG, asset.etag.as_str()));
    Ok(Content(match is_known {
        true => response.finish(),
        false => response.content_type(asset.content_type).body(asset.bytes),
    }))
}

/// Compression on the way makes a tag weak, and a browser repeats it so.
fn names(known: &HeaderValue, etag: &str) -> bool {
    let tags = known.to_str().unwrap_or_default().split(',');
    tags.map(|tag| tag.trim().trim_start_matches("W/"))
        .any(|tag| tag == etag || tag == "*")
}
