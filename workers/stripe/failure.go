package stripe

import "github.com/oncepay/oncepay/charges"

// Failure words an error for the charge's caller. It is never nil.
func Failure(e *Error) *charges.Failure {
	return charges.Decline{
		Type: e.Type, Code: e.Code, DeclineCode: e.DeclineCode, AdviceCode: e.AdviceCode, Message: e.Message, Param: e.Param,
	}.Failure()
}

func (f *failure) toCaller() *charges.Failure {
	return charges.Decline{
		Type: f.Type, Code: f.Code, DeclineCode: f.DeclineCode, AdviceCode: f.AdviceCode, Message: f.Message, Param: f.Param,
	}.Failure()
}
