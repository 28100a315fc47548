#include "server/routes.h"

#include "server/chat_api.h"
#include "server/completion_api.h"
#include "server/explain_api.h"
#include "server/info_api.h"
#include "server/openapi.h"
#include "server/render_api.h"
#include "server/token_api.h"

namespace octavo::server {

void AddRoutes(Service& service, Router& router) {
  AddInfoApi(service, router);
  AddCompletionApi(service, router);
  AddChatApi(service, router);
  AddRenderApi(service, router);
  AddExplainApi(service, router);
  AddTokenApi(service, router);
  AddOpenApi(service, router);
}

}  // namespace octavo::server
