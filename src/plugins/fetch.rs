//! Download of a plugin archive: over HTTPS, through the egress guard, and only as its SHA-256 says.

use std::time::Duration;

use reqwest::{Method, Url, header::HeaderMap};
use sha2::{Digest, Sha256};

use super::digest::MOST_BYTES;
use crate::{
    sandbox::egress::{
        EgressError, Guard, body,
        request::{Request, Terms},
    },
    settings::egress::Egress,
    system::hex,
};

const SLOWEST: Duration = Duration::from_secs(120);

/// Why an archive was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("expected an address that begins with https://")]
    Url,
    #[error("expected the SHA-256 of the archive: 64 hexadecimal digits")]
    Sum,
    #[error(transparent)]
    Egress(#[from] EgressError),
    #[error("the answer was {0}")]
    Status(u16),
    #[error("it is larger than 50 MiB, or packed in a way that nobody asked for")]
    TooLarge,
    #[error("it was not there within 2 minutes")]
    TooSlow,
    #[error("its SHA-256 is {0}, which is not the one that was given")]
    OtherSum(String),
}

/// Fetches an archive, from where `egress` lets it.
pub async fn fetch(
    guard: &Guard,
    egress: &Egress,
    url: &str,
    sha256: &str,
) -> Result<Vec<u8>, FetchError> {
    let is_sum = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_sum {
        return Err(FetchError::Sum);
    }
    let url = Url::parse(url).ok().filter(|url| url.scheme() == "https").ok_or(FetchError::Url)?;
    let request = Request { method: Method::GET, url, headers: HeaderMap::new(), body: None };
    let terms = Terms::new(egress, &|_| Ok(()), &|_| false);
    let receiving = async {
        let (mut response, _) = guard.send(request, &terms).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(FetchError::Status(status.as_u16()));
        }
        let body = body::read(&mut response, MOST_BYTES as usize).await?;
        if body.truncated || body.packed {
            return Err(FetchError::TooLarge);
        }
        Ok(body.bytes)
    };
    let bytes =
        tokio::time::timeout(SLOWEST, receiving).await.map_err(|_| FetchError::TooSlow)??;
    let sum = hex(&Sha256::digest(&bytes));
    if sum.eq_ignore_ascii_case(sha256) { Ok(bytes) } else { Err(FetchError::OtherSum(sum)) }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, process::Command, sync::Arc};

    use rustls::{
        RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    };
    use tempfile::TempDir;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::{
        plugins::{archive, catalogue::Sources, depot::Depot, package::Origin},
        sandbox::egress::tests::doubles::{Answers, response},
    };

    /// A certificate for `plugins.example`, with its key.
    fn certificate(folder: &Path) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
            -subj /CN=plugins.example -addext subjectAltName=DNS:plugins.example \
            -addext basicConstraints=critical,CA:FALSE -keyout key.pem -out cert.pem";
        let made = Command::new("openssl")
            .args(words.split_whitespace())
            .current_dir(folder)
            .output()
            .expect("openssl runs");
        assert!(made.status.success(), "{made:?}");
        let certificate = CertificateDer::from_pem_file(folder.join("cert.pem")).unwrap();
        (certificate, PrivateKeyDer::from_pem_file(folder.join("key.pem")).unwrap())
    }

    /// Serves an archive at `/a.tar.gz`, and nothing else. Returns its port, and what trusts it.
    async fn serve(folder: &Path, archive: Vec<u8>) -> (u16, Guard) {
        let (certificate, key) = certificate(folder);
        let provider = Arc::new(ring::default_provider());
        let settings = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let (listener, acceptor) = (
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
            TlsAcceptor::from(Arc::new(settings)),
        );
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut asked = vec![0; 4 << 10];
                let length = stream.read(&mut asked).await.unwrap_or_default();
                let is_known = asked[..length].starts_with(b"GET /a.tar.gz ");
                let answer = if is_known {
                    response("200 OK", &archive)
                } else {
                    response("404 Not Found", b"")
                };
                let _ = stream.write_all(&answer).await;
                let _ = stream.shutdown().await;
            }
        });
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        (port, Guard::trusting(Answers::of(&["127.0.0.1"]), roots))
    }

    /// PL-17, PL-57: what is at an address is installed if it is what was said to be there, and else nothing is.
    #[tokio::test]
    async fn an_archive_at_an_address_is_installed_if_it_is_the_one_that_is_meant() {
        let home = TempDir::new().unwrap();
        let source = home.path().join("source");
        fs::create_dir(&source).unwrap();
        let manifest = "manifest_version = 1\nkey = \"fetched\"\nversion = \"1.0.0\"\ndisplay_name = \"Fetched\"\n\
            description = \"From afar.\"\n[run]\nkind = \"js\"\nentry = \"main.js\"\n[tools]\nnamespace = \"fetched\"\n";
        fs::write(source.join("plugin.toml"), manifest).unwrap();
        fs::write(source.join("main.js"), "export {};\n").unwrap();
        let packed = archive::pack(&source).unwrap();
        let sum = hex(&Sha256::digest(&packed));
        let (port, guard) = serve(home.path(), packed.clone()).await;
        let near = Egress {
            allow_private: vec![format!("plugins.example:{port}").parse().unwrap()],
            ..Egress::default()
        };
        let at = |path: &str| format!("https://plugins.example:{port}/{path}");
        let installed = home.path().join("plugins");
        let depot = Depot::new(installed.clone(), move || Sources {
            installed: installed.clone(),
            ..Sources::default()
        });
        depot.prepare().unwrap();

        let fetched = fetch(&guard, &near, &at("a.tar.gz"), &sum.to_uppercase()).await.unwrap();
        depot.install(depot.stage(&fetched).unwrap(), &at("a.tar.gz")).unwrap();
        let refused = async |egress: &Egress, path: &str, sum: &str| {
            fetch(&guard, egress, &at(path), sum).await.unwrap_err().to_string()
        };
        let other = refused(&near, "a.tar.gz", &"0".repeat(64)).await;
        let missing = refused(&near, "b.tar.gz", &sum).await;
        let private = refused(&Egress::default(), "a.tar.gz", &sum).await;
        let stranger = Guard::new(Answers::of(&["127.0.0.1"]));
        let unknown = fetch(&stranger, &near, &at("a.tar.gz"), &sum).await.unwrap_err().to_string();

        assert_eq!(fetched, packed);
        assert_eq!(depot.catalogue().get("fetched").unwrap().origin, Origin::Installed);
        assert_eq!(other, format!("its SHA-256 is {sum}, which is not the one that was given"));
        assert_eq!(missing, "the answer was 404");
        assert_eq!(private, "blocked: private or reserved address 127.0.0.1");
        assert!(unknown.contains("certificate"), "{unknown}");
    }
}
