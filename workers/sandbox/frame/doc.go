// Package frame is what simulated providers share: a movable clock, armed faults, a request log, webhooks and
// a durable journal, served over HTTP.
//
// A provider (see Provider) never touches HTTP. It is given a Request whose body is read, and returns an
// Answer, so that how an answer is lost, cut short or delayed is decided here, once, for every provider:
//
//	request -> read -> Identify -> take a fault -> log -> [drop_before | status] -> Answer -> log -> [drop_after | truncate | html] -> client
//
// What a provider must remember it appends to the Journal before it returns its Answer. The journal is
// read back at the next start, so a killed process forgets nothing that it has answered.
//
// What a provider tells by webhook goes the other way:
//
//	change -> Draft -> journalled with the change -> Post -> body and signature (Courier) -> sent until a 2xx, or by a Dispatch
package frame
