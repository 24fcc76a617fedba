-- Bearer tokens of the HTTP API. Only a hash is kept.

CREATE TABLE api_token (
    id         uuid PRIMARY KEY,
    name       text NOT NULL CHECK (name <> ''),
    role       text NOT NULL CHECK (role IN ('caller', 'operator')),
    hash       bytea NOT NULL CHECK (octet_length(hash) = 32),
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz,

    CONSTRAINT api_token_hash UNIQUE (hash)
);

COMMENT ON COLUMN api_token.name       IS 'the caller: tokens of one name see the same charges';
COMMENT ON COLUMN api_token.hash       IS 'SHA-256 of the token';
COMMENT ON COLUMN api_token.revoked_at IS 'null: valid';
