//! `/api/v1/openapi.json`: the description of all routes.

use std::sync::OnceLock;

use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder, http::header};
use serde_json::Value;

use super::page::takes_gzip;
use crate::{
    api::{
        endpoint::{Endpoint, Method::Get, Needs},
        reply::{Content, JSON},
    },
    http::{
        kit::{call::Call, docs_page, error::ApiResult, openapi::document, resource::Resource},
        ui,
    },
};

pub(super) const SHOW_OPENAPI: Endpoint<Content> = Endpoint::new(
    Get,
    "/api/v1/openapi.json",
    Needs::Login,
    "Describes all routes, in OpenAPI 3.1.",
);

pub(super) const SHOW_DOCS: Endpoint<Content> =
    Endpoint::new(Get, "/api/v1/docs", Needs::Login, "Describes all routes, as a page.");

/// A text that does not change while the program runs. It holds no secret that the length of its
/// compressed form could give away.
struct Fixed {
    plain: String,
    packed: Vec<u8>,
}

impl Fixed {
    fn new(plain: String) -> Self {
        Self { packed: ui::pack(plain.as_bytes()), plain }
    }

    /// In the form that a client can read.
    fn answer(
        &'static self,
        request: &HttpRequest,
        mut response: HttpResponseBuilder,
    ) -> HttpResponse {
        response.insert_header((header::VARY, "Accept-Encoding"));
        if takes_gzip(request) {
            response.insert_header((header::CONTENT_ENCODING, "gzip")).body(self.packed.as_slice())
        } else {
            response.body(self.plain.as_str())
        }
    }
}

pub(super) async fn show(
    Call { request, .. }: Call,
    table: fn() -> Vec<Resource>,
) -> ApiResult<HttpResponse> {
    let mut response = HttpResponse::Ok();
    response.content_type(JSON);
    Ok(text(table).answer(&request, response))
}

pub(super) async fn read(
    Call { request, .. }: Call,
    table: fn() -> Vec<Resource>,
) -> ApiResult<HttpResponse> {
    static PAGE: OnceLock<Fixed> = OnceLock::new();
    let mut response = HttpResponse::Ok();
    for (name, value) in ui::security_headers() {
        response.insert_header((name, value));
    }
    response.content_type("text/html; charset=utf-8");
    let document: Value = serde_json::from_str(&text(table).plain)?;
    let page = PAGE.get_or_init(|| Fixed::new(docs_page::render(&document)));
    Ok(page.answer(&request, response))
}

fn text(table: fn() -> Vec<Resource>) -> &'static Fixed {
    static TEXT: OnceLock<Fixed> = OnceLock::new();
    TEXT.get_or_init(|| Fixed::new(document(table()).0.to_string()))
}
