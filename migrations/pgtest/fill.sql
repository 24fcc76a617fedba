-- A database as it is after thirty days of work: $1 charges, of which the last $2 wait behind an outage with their jobs. Everything
-- of a charge is made from its number, so that whoever reads can find it again. A third of them sell sku-0, and half of these another SKU as well.

-- charge
INSERT INTO charge (id, caller, idempotency_key, fingerprint, fingerprint_version, request, amount, currency, reference, reference_freed,
                    status, stock, payment_intent, failure_code, advice, review_reason, created_at, updated_at)
SELECT overlay(overlay(lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || substr(h, 13) PLACING '7' FROM 13) PLACING '8' FROM 17)::uuid,
       'shop-' || g % 7, overlay(overlay(h PLACING '4' FROM 13) PLACING '8' FROM 17)::uuid, decode(h || h, 'hex'), 1,
       '{"amount":' || 100 + g % 90000 || ',"currency":"usd","description":"Order ' || g
           || CASE WHEN g % 6 = 0 THEN '","items":[{"quantity":1,"sku":"sku-0"},{"quantity":2,"sku":"sku-' || g / 6 % 3000 + 1 || '"}],'
                   WHEN g % 3 = 0 THEN '","items":[{"quantity":1,"sku":"sku-0"}],' ELSE '",' END || '"metadata":{"cart":"' || h || '"},"payment_method":"pm_card_visa","receipt_email":"buyer' || g || '@example.com","reference":"order-' || g || '"}',
       100 + g % 90000, 'usd', 'order-' || g, status IN ('failed', 'canceled'), status,
       CASE WHEN g % 3 = 0 THEN CASE WHEN status = 'succeeded' THEN 'taken' WHEN status IN ('failed', 'canceled') THEN 'returned' ELSE 'held' END END,
       CASE WHEN status IN ('succeeded', 'failed', 'requires_action') THEN 'pi_' || left(h, 24) END,
       CASE status WHEN 'failed' THEN 'card_declined' END, CASE status WHEN 'failed' THEN 'new_payment_method' END,
       CASE status WHEN 'needs_review' THEN 'stored_failure' END, at, at + interval '2 seconds'
  FROM (SELECT g, md5('charge ' || g) AS h, now() - interval '30 days' * (($1 - g) / $1::float8) - interval '1 minute' AS at,
               CASE WHEN g > $1 - $2 THEN 'pending' WHEN g % 1000 = 0 THEN 'needs_review' WHEN g % 1000 = 1 THEN 'requires_action'
                    WHEN g % 100 < 8 THEN 'failed' WHEN g % 100 = 8 THEN 'canceled' ELSE 'succeeded' END AS status
          FROM generate_series(1, $1::bigint) AS g) AS made

-- charge_item
INSERT INTO charge_item (charge_id, sku, quantity, stock)
SELECT id, i.sku, i.quantity, stock FROM charge, jsonb_to_recordset(request::jsonb -> 'items') AS i (sku text, quantity bigint) WHERE stock IS NOT NULL

-- inventory
INSERT INTO inventory (sku, quantity, allocated)
SELECT sku, allocated + CASE WHEN sku LIKE '%7' THEN 0 ELSE 1000000 END, allocated
  FROM (SELECT i.sku, coalesce(sum(i.quantity) FILTER (WHERE stock <> 'returned'), 0) AS allocated
          FROM charge, jsonb_to_recordset(request::jsonb -> 'items') AS i (sku text, quantity bigint) WHERE stock IS NOT NULL GROUP BY i.sku) AS sold

-- idempotency_key
INSERT INTO idempotency_key (key, caller, operation, charge_id, response_status, response_body, created_at, expires_at)
SELECT idempotency_key, caller, 'charge', id, 202, request::bytea, created_at, created_at + interval '1 day'
  FROM charge WHERE created_at > now() - interval '1 day'

-- charge_event
INSERT INTO charge_event (charge_id, type, from_status, to_status, actor, data, at)
SELECT id, e.type, e.was, e.becomes, e.actor, e.data, created_at + e.late
  FROM charge, LATERAL (VALUES ('charge.accepted', NULL, 'pending', 'caller:shop', '{}'::jsonb, interval '0', false),
                               ('charge.processing', 'pending', 'processing', 'worker', '{"attempt": 1}', '1 second', true),
                               ('charge.' || status, 'processing', status, 'worker', '{"attempt": 1, "request_id": "req_0123456789"}', '2 seconds', true))
               AS e (type, was, becomes, actor, data, late, later)
 WHERE NOT later OR status NOT IN ('pending', 'canceled')

-- attempt
INSERT INTO attempt (id, charge_id, operation, number, provider_key, stripe_account, livemode, request, sent_at, stripe_sent_at, ended_at, outcome, http_status, request_id)
SELECT overlay(id::text PLACING substr(idempotency_key::text, 20, 4) FROM 20)::uuid, id, 'charge', 1, idempotency_key::text, 'acct_home', false,
       'amount=' || amount || '&automatic_payment_methods[allow_redirects]=never&automatic_payment_methods[enabled]=true&capture_method=automatic&confirm=true&currency=usd'
           || '&description=Order&metadata[oncepay_charge]=' || id || '&metadata[oncepay_key]=' || idempotency_key || '&payment_method=pm_card_visa',
       created_at + interval '1 second', created_at + interval '1 second', created_at + interval '2 seconds',
       CASE status WHEN 'needs_review' THEN 'stored_failure' ELSE 'answered' END, 200, 'req_0123456789'
  FROM charge WHERE status NOT IN ('pending', 'canceled')

-- look
INSERT INTO look (charge_id, operation, complete, seen, begun_at, looked_at)
SELECT id, 'charge', true, 10, updated_at, updated_at FROM charge WHERE status = 'needs_review' OR amount % 100 = 57 AND status = 'succeeded'

-- payment
INSERT INTO payment (id, charge_id, status, as_of, received, failure_code, advice, failed_as_of, client_secret, followed, updated_at)
SELECT payment_intent, id, CASE status WHEN 'failed' THEN 'requires_payment_method' ELSE status END, updated_at,
       CASE status WHEN 'succeeded' THEN amount ELSE 0 END, failure_code, advice, CASE WHEN failure_code IS NOT NULL THEN updated_at END,
       CASE status WHEN 'requires_action' THEN payment_intent || '_secret_1' END, status = 'requires_action', updated_at
  FROM charge WHERE payment_intent IS NOT NULL

-- receipt
INSERT INTO receipt (charge_id, recipient, status, claimed_at, message_id, created_at, updated_at)
SELECT id, 'buyer@example.com', CASE WHEN amount % 5000 = 57 THEN 'unknown' ELSE 'delivered' END, updated_at, 'm-' || id, updated_at, updated_at
  FROM charge WHERE status = 'succeeded'

-- webhook_event
INSERT INTO webhook_event (provider, event_id, type, raw, occurred_at, status, charge_id, tries, received_at, updated_at, due_at)
SELECT e.provider, e.prefix || payment_intent, e.type, convert_to(repeat(e.type, 5), 'UTF8'), updated_at,
       CASE WHEN amount % 10000 = 57 THEN 'pending' ELSE 'applied' END, id, 1, updated_at, updated_at, updated_at
  FROM charge, (VALUES ('stripe', 'evt_', 'payment_intent.succeeded'), ('sendgrid', 'sg_', 'delivered')) AS e (provider, prefix, type)
 WHERE charge.status = 'succeeded'

-- refund
INSERT INTO refund (id, charge_id, payment, amount, currency, status, as_of)
SELECT 're_' || payment_intent, id, payment_intent, 50, 'usd', 'succeeded', updated_at FROM charge WHERE status = 'succeeded' AND amount % 50 = 7

-- dispute
INSERT INTO dispute (id, charge_id, payment, amount, currency, status, reason, opened_at, as_of)
SELECT 'dp_' || payment_intent, id, payment_intent, amount, 'usd', 'lost', 'fraudulent', updated_at, updated_at FROM charge WHERE status = 'succeeded' AND amount % 100 = 58

-- river_job
INSERT INTO river_job (state, attempt, max_attempts, attempted_at, created_at, finalized_at, scheduled_at, priority, args, kind, queue)
SELECT state::river_job_state, attempt, 32767, CASE attempt WHEN 1 THEN at END, at, CASE state WHEN 'completed' THEN at END, at, 1,
       jsonb_build_object('charge_id', id, 'v', 1), kind, queue
  FROM (SELECT id, created_at AS at, 'available' AS state, 0 AS attempt, 'charge_send' AS kind, 'charges' AS queue FROM charge WHERE status = 'pending'
        UNION ALL
        SELECT id, updated_at, 'completed', 1, k.kind, k.queue FROM charge, (VALUES ('charge_send', 'charges'), ('receipt_send', 'receipts')) AS k (kind, queue)
         WHERE updated_at > (SELECT min(created_at) FROM charge WHERE status = 'pending') - interval '1 day' AND status = 'succeeded') AS made
