//! `/` and `/ui/…`: the web page. Only its files are compressed: they hold no secret that the
//! length of an answer could give away.

use actix_web::{
    HttpRequest, HttpResponse,
    dev::HttpServiceFactory,
    http::header::{self, HeaderValue},
    middleware::Compress,
};

use super::{
    error::ApiError,
    routes::{self, Methods},
    ui,
};

pub(super) fn root() -> impl HttpServiceFactory {
    routes::resource("/", Methods::new().get(serve)).wrap(Compress::default())
}

pub(super) fn files() -> impl HttpServiceFactory {
    routes::resource("/ui/{file}", Methods::new().get(serve)).wrap(Compress::default())
}

async fn serve(request: HttpRequest) -> Result<HttpResponse, ApiError> {
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
    Ok(match is_known {
        true => response.finish(),
        false => response.content_type(asset.content_type).body(asset.bytes),
    })
}

/// Compression on the way makes a tag weak, and a browser repeats it so.
fn names(known: &HeaderValue, etag: &str) -> bool {
    let tags = known.to_str().unwrap_or_default().split(',');
    tags.map(|tag| tag.trim().trim_start_matches("W/"))
        .any(|tag| tag == etag || tag == "*")
}
